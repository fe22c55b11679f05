#pragma once
// Tokens of an answer -> the text that may be shown, and which token belongs to which piece of it.

#include <cstddef>
#include <string>
#include <vector>

#include "engine/detokenizer.h"
#include "engine/request.h"
#include "engine/stop_matcher.h"

namespace grokd {

/// Holds back what may still change: an unfinished character, and a tail that may become a stop string. A
/// token is handed out with the piece that carries its last byte.
class AnswerText {
 public:
  AnswerText() = default;
  /// `stops` must outlive the answer. `list_empty`: tokens without bytes are handed out too.
  AnswerText(std::span<const std::string> stops, bool list_empty) : matcher_(stops), list_empty_(list_empty) {
    text_.reserve(kUsualBytes);
    queue_.reserve(kUsualTokens);
  }

  /// `may_stop`: stop strings are looked for in this token's text.
  void push(OutputToken&& token, bool may_stop);
  /// No token follows: what is held back may be shown, an unfinished character as U+FFFD.
  void finish();
  /// Index of the stop string that ended the text, -1 if none did.
  int stop() const { return stop_; }
  /// Appends the text that may be shown and was not yet taken, with its tokens. False if there is none.
  bool take(std::string& text, std::vector<OutputToken>& tokens);

 private:
  struct Queued {
    OutputToken token;
    std::size_t begin = 0, end = 0;  // in the whole text; kUnsettled while its last byte is held back
  };
  static constexpr std::size_t kUsualBytes = 64, kUsualTokens = 8;  // that wait: room from the start
  static constexpr std::size_t kUnsettled = static_cast<std::size_t>(-1);

  std::size_t text_end() const { return taken_ + text_.size(); }
  std::string_view matched_text() const;
  std::size_t push_bytes(std::string_view bytes);
  void settle();
  void cut(std::size_t end);

  StopMatcher matcher_;
  bool list_empty_ = false;
  Detokenizer detokenizer_;
  std::string text_;             // not yet taken
  std::size_t taken_ = 0;        // bytes of the whole text before text_
  std::size_t match_begin_ = 0;  // stop strings are looked for from here on
  std::vector<Queued> queue_;    // not yet taken, in order
  int stop_ = -1;
  bool finished_ = false;
};

}  // namespace grokd

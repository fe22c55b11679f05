#pragma once
// What the texts of grammars and regular expressions have in common: characters, escapes, [sets] and counts.

#include <optional>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

class PatternReader {
 public:
  static constexpr char32_t kEnd = 0xFFFFFFFF;

  /// Throws GrammarError if the text is not UTF-8.
  explicit PatternReader(std::string_view utf8);

  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kEnd;
  }
  char32_t next();          // an error at the end
  bool take(char32_t c);    // reads it if it is next
  void expect(char32_t c);  // an error if it is not next
  std::size_t position() const { return at_; }
  void rewind(std::size_t position) { at_ = position; }

  /// After a backslash: one character (\n, \x41, \u00e9, \., ...) or a set (\d, \w, \s and their
  /// complements).
  CharSet escape();
  /// As `escape`, but sets are an error.
  char32_t escaped_character();
  /// After '[': up to and with the ']'.
  CharSet bracket();
  /// Reads *, +, ?, {m}, {m,} or {m,n} if it is next and applies it to `body`.
  ExprId repeated(Grammar& grammar, ExprId body);

  [[noreturn]] void fail(const std::string& message) const;

 private:
  char32_t hex(int digits);
  int count();
  CharSet bracket_item();

  std::u32string text_;
  std::size_t at_ = 0;
};

/// Throws at nesting deeper than kMaxDepth: the parsers recurse once a level.
class DepthGuard {
 public:
  DepthGuard(int& depth, const PatternReader& reader) : depth_(depth) {
    if (depth_ >= kMaxDepth) reader.fail("nested deeper than 64 levels");
    ++depth_;
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

}  // namespace grokd::grammar

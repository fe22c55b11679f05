#include "engine/answer_text.h"

#include <algorithm>

namespace grokd {

void AnswerText::push(OutputToken&& token, bool may_stop) {
  if (token.bytes.empty() && !list_empty_) return;
  const std::size_t begin = push_bytes(token.bytes);
  const std::size_t end = detokenizer_.pending() > 0 ? kUnsettled : text_end();
  queue_.push_back({std::move(token), begin, end});
  if (!may_stop) {
    match_begin_ = text_end();
    return;
  }
  if (const auto match = matcher_.find(matched_text())) {
    stop_ = match->stop;
    cut(std::max(match_begin_, taken_) + match->begin);
  }
}

std::string_view AnswerText::matched_text() const {
  return std::string_view(text_).substr(std::max(match_begin_, taken_) - taken_);
}

/// Returns where the first byte's character begins in the whole text.
std::size_t AnswerText::push_bytes(std::string_view bytes) {
  std::size_t begin = kUnsettled;
  for (const char byte : bytes) {
    if (!detokenizer_.joins(byte)) {
      detokenizer_.flush(text_);
      settle();
    }
    if (begin == kUnsettled) begin = text_end();
    detokenizer_.push(byte, text_);
    if (detokenizer_.pending() == 0) settle();
  }
  return begin == kUnsettled ? text_end() : begin;
}

/// The character that was held back is in the text now: so are the tokens that end in it.
void AnswerText::settle() {
  for (auto queued = queue_.rbegin(); queued != queue_.rend() && queued->end == kUnsettled; ++queued) {
    queued->end = text_end();
  }
}

/// Ends the whole text at `end`. A token that reaches into what stays is kept, one wholly behind it is
/// dropped.
void AnswerText::cut(std::size_t end) {
  text_.resize(end - taken_);
  std::erase_if(queue_, [end](const Queued& queued) { return queued.begin >= end; });
  for (auto& queued : queue_) queued.end = std::min(queued.end, end);
  finished_ = true;
}

void AnswerText::finish() {
  if (finished_) return;
  detokenizer_.flush(text_);
  settle();
  finished_ = true;
}

bool AnswerText::take(std::string& text, std::vector<OutputToken>& tokens) {
  const std::size_t size = text_.size() - (finished_ ? 0 : matcher_.held(matched_text()));
  if (size == 0 && !finished_) return false;
  text.append(text_, 0, size);
  text_.erase(0, size);
  taken_ += size;
  const auto ready =
      std::find_if(queue_.begin(), queue_.end(), [this](const auto& q) { return q.end > taken_; });
  std::for_each(queue_.begin(), ready, [&](Queued& queued) { tokens.push_back(std::move(queued.token)); });
  queue_.erase(queue_.begin(), ready);
  return size > 0;
}

}  // namespace grokd

#include "service/prompt_encoding.h"

#include <algorithm>

namespace grokd {
namespace {

using Kind = api::PromptSegment::Kind;

void append(std::vector<TokenId>& ids, const std::vector<TokenId>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

class PromptEncoder {
 public:
  PromptEncoder(const ModelConfig& config, const Tokenizer& tokenizer)
      : config_(config), tokenizer_(tokenizer) {}

  void add(const api::PromptSegment& segment) {
    switch (segment.kind) {
      case Kind::content:
        add_plain(segment.text);
        break;
      case Kind::markup:
        add_markup(segment.text);
        break;
      case Kind::bos:
        ids_.push_back(config_.bos_token);
        break;
      case Kind::eos:
        ids_.push_back(config_.eos_token);
        break;
    }
  }
  std::vector<TokenId> take() { return std::move(ids_); }

 private:
  void add_plain(std::string_view text) {
    if (text.empty()) return;
    append(ids_, tokenizer_.encode_plain(text, at_start_));
    at_start_ = false;
  }

  /// Markers "<|name|>" of the vocabulary become their ids. They are looked for here because encoding the
  /// whole text would put a start space before it.
  void add_markup(std::string_view text) {
    std::size_t plain_from = 0;
    for (std::size_t open = text.find("<|"); open != text.npos; open = text.find("<|", open + 1)) {
      const std::size_t close = text.find("|>", open);
      if (close == text.npos) break;
      const TokenId marker = tokenizer_.find(text.substr(open, close + 2 - open));
      if (marker < 0) continue;
      add_plain(text.substr(plain_from, open - plain_from));
      ids_.push_back(marker);
      at_start_ = false;
      plain_from = close + 2;
    }
    add_plain(text.substr(plain_from));
  }

  const ModelConfig& config_;
  const Tokenizer& tokenizer_;
  std::vector<TokenId> ids_;
  bool at_start_ = true;
};

}  // namespace

std::vector<TokenId> encode_text(std::string_view text, bool add_bos, const ModelConfig& config,
                                 const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  if (add_bos) ids.push_back(config.bos_token);
  append(ids, tokenizer.encode(text));
  return ids;
}

std::vector<TokenId> encode_chat(const api::ChatTemplate& format, std::span<const api::ChatMessage> messages,
                                 const api::ChatRendering& rendering, const ModelConfig& config,
                                 const Tokenizer& tokenizer) {
  const std::vector<api::PromptSegment> segments = api::render_chat(format, messages, rendering);
  PromptEncoder encoder(config, tokenizer);
  const bool begins_with_bos = !segments.empty() && segments.front().kind == Kind::bos;
  if (config.add_bos && !begins_with_bos) encoder.add({Kind::bos, ""});
  for (const api::PromptSegment& segment : segments) encoder.add(segment);
  return encoder.take();
}

}  // namespace grokd

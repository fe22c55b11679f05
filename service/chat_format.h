#pragma once
// The answer of /v1/chat/completions, streamed or plain.

#include <string>
#include <vector>

#include "api/chat.h"
#include "engine/tokenizer.h"
#include "service/generation.h"

namespace grokd {

/// Request number k is choice k of the one prompt.
class ChatAnswerFormat : public AnswerFormat {
 public:
  /// All outlive the format.
  ChatAnswerFormat(const api::ChatRequest& request, const std::vector<TokenId>& prompt,
                   const Tokenizer& tokenizer, api::ResponseHead head);

  void open(std::string& out) override;
  void append_piece(std::string& out, int choice, RequestOutput& piece) override;
  void append_usage(std::string& out, const api::Usage& usage) override;
  void gather(int choice, RequestOutput& piece) override;
  std::string plain(const api::Usage& usage) override;

 private:
  struct Choice {
    std::string content;                      // not sent yet; a plain answer's whole content
    std::vector<api::TokenLogprob> logprobs;  // likewise
    std::vector<TokenId> ids;                 // likewise
    api::LeadingSpace leading_space;
    api::FinishReason finish = api::FinishReason::length;
    api::StopReason stop;
  };

  void take_in(int choice, RequestOutput& piece);
  api::ChatDelta delta_of(int choice) const;
  void clear_sent(int choice);

  const api::ChatRequest& request_;
  const std::vector<TokenId>& prompt_;
  const Tokenizer& tokenizer_;
  const api::ResponseHead head_;
  const api::ChatChunkWriter writer_;
  std::vector<Choice> choices_;
};

}  // namespace grokd

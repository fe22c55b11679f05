#pragma once
// The answer of /v1/completions, streamed or plain: echo, log-probabilities, best_of.

#include <string>
#include <vector>

#include "api/completion.h"
#include "api/utf8.h"
#include "engine/tokenizer.h"
#include "service/generation.h"

namespace grokd {

struct EncodedPrompt {
  std::vector<TokenId> ids;
  std::string text;  // as sent, or decoded; only with echo
};

class CompletionFormat : public AnswerFormat {
 public:
  /// All three outlive the format. Request number p * best_of + k is choice k of prompt p.
  CompletionFormat(const api::CompletionRequest& request, const std::vector<EncodedPrompt>& prompts,
                   const Tokenizer& tokenizer, api::ResponseHead head);

  void open(std::string& out) override;
  void append_piece(std::string& out, int choice, RequestOutput& piece) override;
  void append_usage(std::string& out, const api::Usage& usage) override;
  void gather(int choice, RequestOutput& piece) override;
  std::string plain(const api::Usage& usage) override;

 private:
  struct Choice {
    std::string text;                         // not sent yet; a plain answer's whole text
    std::vector<api::TokenLogprob> logprobs;  // likewise
    std::vector<TokenId> ids;                 // likewise
    api::TextOffsets offsets;
    bool echoed = false;  // the prompt is in `text` or sent
    bool first_event_sent = false;
    double logprob_sum = 0;
    int scored_tokens = 0;
    api::FinishReason finish = api::FinishReason::length;
    api::StopReason stop;

    double mean_logprob() const;
  };

  const EncodedPrompt& prompt_of(int choice) const;
  void take_in(int choice, RequestOutput& piece);
  void take_in_prompt(int choice, const std::vector<OutputToken>& scores);
  void add_token(Choice& choice, const OutputToken& token, bool scored);
  api::CompletionDelta delta_of(int choice) const;
  void clear_sent(int choice);
  api::CompletionChoice plain_choice(int choice, int index);
  std::vector<int> best_choices(int prompt) const;

  const api::CompletionRequest& request_;
  const std::vector<EncodedPrompt>& prompts_;
  const Tokenizer& tokenizer_;
  const api::ResponseHead head_;
  const api::CompletionChunkWriter writer_;
  std::vector<Choice> choices_;
};

}  // namespace grokd

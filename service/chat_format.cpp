#include "service/chat_format.h"

#include <utility>

#include "service/convert.h"

namespace grokd {
namespace {

bool ended(const RequestOutput& piece) { return piece.finish != FinishReason::none; }

}  // namespace

ChatAnswerFormat::ChatAnswerFormat(const api::ChatRequest& request, const std::vector<TokenId>& prompt,
                                   const Tokenizer& tokenizer, api::ResponseHead head)
    : request_(request),
      prompt_(prompt),
      tokenizer_(tokenizer),
      head_(std::move(head)),
      writer_(head_, request.stream_options.include_usage),
      choices_(static_cast<std::size_t>(request.n)) {}

void ChatAnswerFormat::take_in(int choice_number, RequestOutput& piece) {
  Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  std::vector<api::TokenLogprob> logprobs;
  if (request_.logprobs) {
    for (const OutputToken& token : piece.tokens) logprobs.push_back(to_api_logprob(token, tokenizer_, true));
  }
  if (!request_.continue_final_message) choice.leading_space.remove(piece.text, &logprobs);
  choice.content += piece.text;
  for (api::TokenLogprob& entry : logprobs) choice.logprobs.push_back(std::move(entry));
  if (request_.return_token_ids)
    choice.ids.insert(choice.ids.end(), piece.new_ids.begin(), piece.new_ids.end());
  if (!ended(piece)) return;
  choice.finish = to_api_finish(piece);
  choice.stop = to_api_stop(piece);
}

api::ChatDelta ChatAnswerFormat::delta_of(int choice_number) const {
  const Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  api::ChatDelta delta;
  delta.index = choice_number;
  delta.content = choice.content;
  if (!choice.logprobs.empty()) delta.logprobs = &choice.logprobs;
  if (request_.return_token_ids) delta.token_ids = &choice.ids;
  return delta;
}

void ChatAnswerFormat::clear_sent(int choice_number) {
  Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  choice.content.clear();
  choice.logprobs.clear();
  choice.ids.clear();
}

void ChatAnswerFormat::open(std::string& out) {
  for (int choice = 0; choice < request_.n; ++choice) {
    api::ChatDelta delta;
    delta.index = choice;
    if (request_.return_token_ids) delta.prompt_token_ids = &prompt_;
    writer_.append_role(out, delta);
  }
}

void ChatAnswerFormat::append_piece(std::string& out, int choice, RequestOutput& piece) {
  take_in(choice, piece);
  const Choice& state = choices_[static_cast<std::size_t>(choice)];
  if (ended(piece)) {
    writer_.append_finish(out, delta_of(choice), state.finish, state.stop);
  } else if (!state.content.empty()) {
    writer_.append_text(out, delta_of(choice));
  } else {
    return;
  }
  clear_sent(choice);
}

void ChatAnswerFormat::append_usage(std::string& out, const api::Usage& usage) {
  if (request_.stream_options.include_usage) writer_.append_usage(out, usage);
}

void ChatAnswerFormat::gather(int choice, RequestOutput& piece) { take_in(choice, piece); }

std::string ChatAnswerFormat::plain(const api::Usage& usage) {
  api::ChatResponse response;
  response.head = head_;
  response.usage = usage;
  for (int index = 0; index < request_.n; ++index) {
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    api::ChatChoice out;
    out.index = index;
    out.content = std::move(choice.content);
    if (request_.logprobs) out.logprobs = std::move(choice.logprobs);
    out.finish_reason = choice.finish;
    out.stop_reason = choice.stop;
    if (request_.return_token_ids) {
      out.token_ids = std::move(choice.ids);
      out.prompt_token_ids = prompt_;
    }
    response.choices.push_back(std::move(out));
  }
  return api::to_json(response);
}

}  // namespace grokd

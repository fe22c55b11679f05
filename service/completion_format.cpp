#include "service/completion_format.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "service/convert.h"

namespace grokd {
namespace {

bool ended(const RequestOutput& piece) { return piece.finish != FinishReason::none; }

}  // namespace

CompletionFormat::CompletionFormat(const api::CompletionRequest& request,
                                   const std::vector<EncodedPrompt>& prompts, const Tokenizer& tokenizer,
                                   api::ResponseHead head)
    : request_(request),
      prompts_(prompts),
      tokenizer_(tokenizer),
      head_(std::move(head)),
      writer_(head_, request.stream_options.include_usage),
      choices_(prompts.size() * static_cast<std::size_t>(request.best_of)) {
  for (Choice& choice : choices_) choice.echoed = !request.echo;
}

double CompletionFormat::Choice::mean_logprob() const {
  return scored_tokens > 0 ? logprob_sum / scored_tokens : -std::numeric_limits<double>::infinity();
}

const EncodedPrompt& CompletionFormat::prompt_of(int choice) const {
  return prompts_[static_cast<std::size_t>(choice / request_.best_of)];
}

void CompletionFormat::add_token(Choice& choice, const OutputToken& token, bool scored) {
  api::TokenLogprob entry = to_api_logprob(token, tokenizer_, scored);
  entry.text_offset = static_cast<std::int64_t>(choice.offsets.add(token.bytes));
  choice.logprobs.push_back(std::move(entry));
}

void CompletionFormat::take_in_prompt(int choice_number, const std::vector<OutputToken>& scores) {
  Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  choice.echoed = true;
  choice.text += prompt_of(choice_number).text;
  for (const OutputToken& token : scores) {
    const bool visible = !token.bytes.empty() || !request_.skip_special_tokens;
    if (visible) add_token(choice, token, &token != scores.data());
  }
}

void CompletionFormat::take_in(int choice_number, RequestOutput& piece) {
  Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  choice.text += piece.text;
  for (const OutputToken& token : piece.tokens) {
    choice.logprob_sum += token.logprob;
    ++choice.scored_tokens;
    if (request_.logprobs) add_token(choice, token, true);
  }
  if (request_.return_token_ids)
    choice.ids.insert(choice.ids.end(), piece.new_ids.begin(), piece.new_ids.end());
  if (!ended(piece)) return;
  choice.finish = to_api_finish(piece);
  choice.stop = to_api_stop(piece);
}

api::CompletionDelta CompletionFormat::delta_of(int choice_number) const {
  const Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  api::CompletionDelta delta;
  delta.index = choice_number;
  delta.text = choice.text;
  if (!choice.logprobs.empty()) delta.logprobs = &choice.logprobs;
  if (request_.return_token_ids) {
    delta.token_ids = &choice.ids;
    if (!choice.first_event_sent) delta.prompt_token_ids = &prompt_of(choice_number).ids;
  }
  return delta;
}

void CompletionFormat::clear_sent(int choice_number) {
  Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  choice.first_event_sent = true;
  choice.text.clear();
  choice.logprobs.clear();
  choice.ids.clear();
}

void CompletionFormat::open(std::string& out) {
  if (!request_.echo || request_.logprobs) return;  // with log-probabilities the prompt's scores come first
  for (int choice = 0; choice < static_cast<int>(choices_.size()); ++choice) {
    take_in_prompt(choice, {});
    writer_.append_text(out, delta_of(choice));
    clear_sent(choice);
  }
}

void CompletionFormat::append_piece(std::string& out, int choice, RequestOutput& piece) {
  const Choice& state = choices_[static_cast<std::size_t>(choice)];
  if (!state.echoed && (ended(piece) || !piece.prompt_scores.empty())) {
    take_in_prompt(choice, piece.prompt_scores);
    writer_.append_text(out, delta_of(choice));
    clear_sent(choice);
  }
  take_in(choice, piece);
  if (ended(piece)) {
    writer_.append_finish(out, delta_of(choice), state.finish, state.stop);
  } else if (!state.text.empty()) {
    writer_.append_text(out, delta_of(choice));
  } else {
    return;
  }
  clear_sent(choice);
}

void CompletionFormat::append_usage(std::string& out, const api::Usage& usage) {
  if (request_.stream_options.include_usage) writer_.append_usage(out, usage);
}

void CompletionFormat::gather(int choice, RequestOutput& piece) {
  const bool echo_now = !choices_[static_cast<std::size_t>(choice)].echoed &&
                        (!request_.logprobs || ended(piece) || !piece.prompt_scores.empty());
  if (echo_now) take_in_prompt(choice, piece.prompt_scores);
  take_in(choice, piece);
}

std::vector<int> CompletionFormat::best_choices(int prompt) const {
  std::vector<int> order(static_cast<std::size_t>(request_.best_of));
  std::iota(order.begin(), order.end(), prompt * request_.best_of);
  if (request_.best_of == request_.n) return order;
  const auto score = [this](int choice) { return choices_[static_cast<std::size_t>(choice)].mean_logprob(); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return score(a) > score(b); });
  order.resize(static_cast<std::size_t>(request_.n));
  return order;
}

api::CompletionChoice CompletionFormat::plain_choice(int choice_number, int index) {
  Choice& choice = choices_[static_cast<std::size_t>(choice_number)];
  api::CompletionChoice out;
  out.index = index;
  out.text = std::move(choice.text);
  if (request_.logprobs) out.logprobs = std::move(choice.logprobs);
  out.finish_reason = choice.finish;
  out.stop_reason = choice.stop;
  if (request_.return_token_ids) {
    out.token_ids = std::move(choice.ids);
    out.prompt_token_ids = prompt_of(choice_number).ids;
  }
  return out;
}

std::string CompletionFormat::plain(const api::Usage& usage) {
  api::CompletionResponse response;
  response.head = head_;
  response.usage = usage;
  for (int prompt = 0; prompt < static_cast<int>(prompts_.size()); ++prompt) {
    int index = prompt * request_.n;
    for (int choice : best_choices(prompt)) response.choices.push_back(plain_choice(choice, index++));
  }
  return api::to_json(response);
}

}  // namespace grokd

// POST /v1/completions
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "api/completion.h"
#include "service/app.h"
#include "service/completion_format.h"
#include "service/constraints.h"
#include "service/convert.h"
#include "service/exchange.h"
#include "service/generation.h"
#include "service/handlers/handlers.h"
#include "service/prompt_encoding.h"

namespace grokd::handlers {
namespace {

EncodedPrompt encode(const api::Prompt& prompt, bool echo, const ModelConfig& config,
                     const Tokenizer& tokenizer) {
  EncodedPrompt encoded;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
    encoded.ids = *ids;
    if (echo) encoded.text = tokenizer.decode(*ids);
    return encoded;
  }
  const std::string& text = std::get<std::string>(prompt);
  encoded.ids = encode_text(text, config.add_bos, config, tokenizer);
  if (echo) encoded.text = text;
  return encoded;
}

std::vector<EncodedPrompt> encode_all(const api::CompletionRequest& request, const ModelConfig& config,
                                      const Tokenizer& tokenizer) {
  std::vector<EncodedPrompt> prompts;
  for (const api::Prompt& prompt : request.prompts) {
    prompts.push_back(encode(prompt, request.echo, config, tokenizer));
    if (prompts.back().ids.empty()) throw api::errors::invalid_value("prompt", "A prompt came to no tokens.");
  }
  return prompts;
}

void check_sizes(const api::CompletionRequest& request, const Tokenizer& tokenizer, int context) {
  for (const api::Prompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt))
      check_text_size(text->size(), tokenizer, context, "prompt");
  }
}

int top_logprobs(const api::CompletionRequest& request) {
  if (request.logprobs) return *request.logprobs;
  return request.best_of > request.n ? 0 : -1;  // best_of needs the tokens' own
}

/// One request a choice. `clamped`: the fewest tokens that fitted where not all that were asked for did.
std::vector<Request> choices_of(const api::CompletionRequest& request,
                                const std::vector<EncodedPrompt>& prompts, std::uint64_t seed,
                                const Constraint& constraint, int context, std::optional<int>& clamped) {
  std::vector<Request> choices;
  for (const EncodedPrompt& prompt : prompts) {
    const int max_tokens = clamp_max_tokens(request.max_tokens, prompt.ids.size(), context, "prompt");
    if (max_tokens < request.max_tokens) clamped = std::min(clamped.value_or(max_tokens), max_tokens);
    for (int k = 0; k < request.best_of; ++k) {
      Request choice = to_engine_request(request, seed, constraint);
      choice.prompt = prompt.ids;
      choice.max_tokens = max_tokens;
      choice.min_tokens = static_cast<int>(std::min<std::int64_t>(request.min_tokens, max_tokens));
      choice.score_prompt = request.echo && request.logprobs;
      choice.sampling.top_logprobs = top_logprobs(request);
      choice.sampling.choice = static_cast<std::uint32_t>(choices.size());
      choices.push_back(std::move(choice));
    }
  }
  return choices;
}

}  // namespace

Answer completions(Exchange& exchange, App& app) {
  const LoadedModel& model = app.require_model();
  const api::RequestLimits limits = app.request_limits(model);
  const api::CompletionRequest request = api::parse_completion_request(exchange.request().body, limits);
  check_model(request.model, app.host);
  app.note_unknown_fields(exchange.record(), request.unknown_fields);
  const auto deadline = app.deadline_of(request, exchange.request());
  check_sizes(request, *model.tokenizer, limits.context);

  std::vector<EncodedPrompt> prompts;
  Constraint constraint;
  const std::function<void()> preparation = [&] {
    prompts = encode_all(request, app.host.config(), *model.tokenizer);
    constraint = compile_constraint(request, *model.grammars);
  };
  co_await prepare(exchange, app, preparation);

  const std::uint64_t seed = seed_or_random(request.seed);
  GenerationPlan plan;
  plan.requests = choices_of(request, prompts, seed, constraint, limits.context, plan.clamped);
  plan.deadline = deadline;
  plan.choices_per_prompt = request.best_of;
  plan.stream = request.stream;
  plan.keep_tokens = top_logprobs(request) >= 0;
  plan.user = request.user;
  CompletionFormat format(request, prompts, *model.tokenizer,
                          response_head("cmpl-", app.host, model, request, seed));
  co_await generate_answer(exchange, app, model, std::move(plan), format);
}

}  // namespace grokd::handlers

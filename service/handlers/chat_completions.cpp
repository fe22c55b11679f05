// POST /v1/chat/completions
#include <algorithm>
#include <functional>
#include <utility>

#include "api/chat.h"
#include "service/app.h"
#include "service/chat_format.h"
#include "service/constraints.h"
#include "service/convert.h"
#include "service/exchange.h"
#include "service/generation.h"
#include "service/handlers/handlers.h"
#include "service/prompt_encoding.h"

namespace grokd::handlers {
namespace {

void check_sizes(const api::ChatRequest& request, const Tokenizer& tokenizer, int context) {
  std::size_t bytes = 0;
  for (const api::ChatMessage& message : request.messages) bytes += message.content.size();
  check_text_size(bytes, tokenizer, context, "messages");
}

/// The template's own ends go beside those of the request.
void add_template_stops(const api::ChatTemplate& format, Request& choice) {
  choice.stop.insert(choice.stop.end(), format.stop.begin(), format.stop.end());
  choice.stop_token_ids.insert(choice.stop_token_ids.end(), format.stop_token_ids.begin(),
                               format.stop_token_ids.end());
}

/// The length asked for, or the default. `clamped` is set when less than was asked for fits.
int max_tokens_of(const api::ChatRequest& request, std::size_t prompt_tokens, int context,
                  const ServerConfig& config, std::optional<int>& clamped) {
  const std::int64_t wanted = request.max_tokens.value_or(config.chat_max_tokens);
  const int max_tokens = clamp_max_tokens(wanted, prompt_tokens, context, "messages");
  if (request.max_tokens && max_tokens < wanted) clamped = max_tokens;
  return max_tokens;
}

std::vector<Request> choices_of(const api::ChatRequest& request, const std::vector<TokenId>& prompt,
                                int max_tokens, std::uint64_t seed, const Constraint& constraint,
                                const api::ChatTemplate& format) {
  std::vector<Request> choices;
  for (int k = 0; k < request.n; ++k) {
    Request choice = to_engine_request(request, seed, constraint);
    add_template_stops(format, choice);
    choice.prompt = prompt;
    choice.max_tokens = max_tokens;
    choice.min_tokens = static_cast<int>(std::min<std::int64_t>(request.min_tokens, max_tokens));
    choice.sampling.top_logprobs = request.logprobs ? request.top_logprobs : -1;
    choice.sampling.choice = static_cast<std::uint32_t>(k);
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace

Answer chat_completions(Exchange& exchange, App& app) {
  const LoadedModel& model = app.require_model();
  const api::RequestLimits limits = app.request_limits(model);
  const api::ChatRequest request = api::parse_chat_request(exchange.request().body, limits);
  check_model(request.model, app.host);
  app.note_unknown_fields(exchange.record(), request.unknown_fields);
  GenerationPlan plan;
  plan.deadline = app.deadline_of(request, exchange.request());
  check_sizes(request, *model.tokenizer, limits.context);

  const api::ChatTemplate& format = app.host.chat_template();
  const api::ChatRendering rendering =
      app.rendering(request.add_generation_prompt, request.continue_final_message);
  std::vector<TokenId> prompt;
  Constraint constraint;
  const std::function<void()> preparation = [&] {
    prompt = encode_chat(format, request.messages, rendering, app.host.config(), *model.tokenizer);
    constraint = compile_constraint(request, *model.grammars);
  };
  co_await prepare(exchange, app, preparation);

  const std::uint64_t seed = seed_or_random(request.seed);
  const int max_tokens = max_tokens_of(request, prompt.size(), limits.context, app.config, plan.clamped);
  plan.requests = choices_of(request, prompt, max_tokens, seed, constraint, format);
  plan.choices_per_prompt = request.n;
  plan.stream = request.stream;
  plan.keep_tokens = request.logprobs;
  plan.user = request.user;
  ChatAnswerFormat answer(request, prompt, *model.tokenizer,
                          response_head("chatcmpl-", app.host, model, request, seed));
  co_await generate_answer(exchange, app, model, std::move(plan), answer);
}

}  // namespace grokd::handlers

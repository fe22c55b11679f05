// POST /tokenize, POST /detokenize
#include "api/tokenize.h"

#include <functional>
#include <utility>
#include <variant>

#include "service/app.h"
#include "service/convert.h"
#include "service/exchange.h"
#include "service/handlers/handlers.h"
#include "service/prompt_encoding.h"

namespace grokd::handlers {
namespace {

std::vector<TokenId> encode(const api::TokenizeRequest& request, const App& app, const Tokenizer& tokenizer) {
  ModelConfig config = app.host.config();
  config.add_bos = request.add_special_tokens.value_or(config.add_bos);
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    return encode_text(*text, config.add_bos, config, tokenizer);
  }
  const auto& messages = std::get<std::vector<api::ChatMessage>>(request.input);
  const auto rendering = app.rendering(request.add_generation_prompt, request.continue_final_message);
  return encode_chat(app.host.chat_template(), messages, rendering, config, tokenizer);
}

std::vector<std::string> pieces_of(const std::vector<TokenId>& ids, const Tokenizer& tokenizer) {
  std::vector<std::string> pieces;
  for (TokenId id : ids) pieces.emplace_back(tokenizer.piece(id));
  return pieces;
}

}  // namespace

Answer tokenize(Exchange& exchange, App& app) {
  const LoadedModel& model = app.require_model();
  const api::RequestLimits limits = app.request_limits(model);
  const api::TokenizeRequest request = api::parse_tokenize_request(exchange.request().body, limits);
  check_model(request.model, app.host);
  api::TokenizeResponse answer;
  const std::function<void()> encoding = [&] { answer.tokens = encode(request, app, *model.tokenizer); };
  co_await app.workers.run(encoding);
  answer.max_model_len = limits.context;
  if (request.return_token_strs) answer.token_strs = pieces_of(answer.tokens, *model.tokenizer);
  const HttpResponse response = json_response(api::to_json(answer));
  co_await exchange.reply(response);
}

Answer detokenize(Exchange& exchange, App& app) {
  const LoadedModel& model = app.require_model();
  const api::RequestLimits limits = app.request_limits(model);
  const api::DetokenizeRequest request = api::parse_detokenize_request(exchange.request().body, limits);
  check_model(request.model, app.host);
  api::DetokenizeResponse answer;
  answer.prompt = model.tokenizer->decode(request.tokens);
  const HttpResponse response = json_response(api::to_json(answer));
  co_await exchange.reply(response);
}

}  // namespace grokd::handlers

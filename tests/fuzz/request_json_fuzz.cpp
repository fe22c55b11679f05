// Any bytes as the body of every route: a struct within its ranges or an ApiError whose body is valid JSON.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/chat.h"
#include "api/chat_template.h"
#include "api/completion.h"
#include "api/error.h"
#include "api/tokenize.h"
#include "api/utf8.h"

namespace {

using namespace grokd::api;

void require(bool holds) {
  if (!holds) std::abort();
}

void require_valid_json(const std::string& text) {
  require(is_valid_utf8(text));
  require(nlohmann::json::accept(text));
}

void check_generation(const GenerationFields& fields, const RequestLimits& limits) {
  require(fields.n >= 1 && fields.n <= limits.max_n);
  require(fields.temperature >= 0 && fields.temperature <= 2);
  require(fields.top_k >= 0 && fields.top_k <= limits.vocab_size);
  require(fields.repetition_penalty > 0);
  for (const LogitBias& bias : fields.logit_bias) require(bias.id >= 0 && bias.id < limits.vocab_size);
  for (const std::string& stop : fields.stop) require(!stop.empty());
  require(fields.unknown_fields >= 0);
  if (!fields.response_format.schema.empty()) require_valid_json(fields.response_format.schema);
}

void check_completion(std::string_view body, const RequestLimits& limits) {
  const CompletionRequest request = parse_completion_request(body, limits);
  check_generation(request, limits);
  require(!request.prompts.empty() && request.best_of >= request.n && request.max_tokens >= 0);
  for (const Prompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      std::string event;
      CompletionChunkWriter({}, true).append_text(event, {.index = 0, .text = *text});
      require_valid_json(event.substr(6));
    } else {
      for (const TokenId id : std::get<1>(prompt)) require(id > 0 && id < limits.vocab_size);
    }
  }
}

void check_chat(std::string_view body, const RequestLimits& limits) {
  const ChatRequest request = parse_chat_request(body, limits);
  check_generation(request, limits);
  require(!request.messages.empty());
  for (const ChatTemplate& format : built_in_chat_templates()) {
    const ChatRendering rendering{request.add_generation_prompt, request.continue_final_message, true};
    for (const PromptSegment& segment : render_chat(format, request.messages, rendering)) {
      require(is_valid_utf8(segment.text));
    }
  }
}

template <class Parse>
void expect_value_or_api_error(Parse parse) {
  try {
    parse();
  } catch (const ApiError& error) {
    require(error.status == 400);
    require_valid_json(to_json(error));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const RequestLimits limits{.vocab_size = 1000, .context = 64, .constrained_output = true};
  expect_value_or_api_error([&] { check_completion(body, limits); });
  expect_value_or_api_error([&] { check_chat(body, limits); });
  expect_value_or_api_error([&] { parse_tokenize_request(body, limits); });
  expect_value_or_api_error([&] { parse_detokenize_request(body, limits); });
  expect_value_or_api_error([&] { parse_chat_template(body, "fuzz"); });
  expect_value_or_api_error([&] { parse_timeout_header(body); });
  return 0;
}

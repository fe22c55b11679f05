#include "api/usage.h"

#include "api/json_writer.h"

namespace grokd::api {

void append_usage(std::string& out, const Usage& usage) {
  out += R"({"prompt_tokens":)";
  append_integer(out, usage.prompt_tokens);
  out += R"(,"completion_tokens":)";
  append_integer(out, usage.completion_tokens);
  out += R"(,"total_tokens":)";
  append_integer(out, usage.prompt_tokens + usage.completion_tokens);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_integer(out, usage.cached_tokens);
  out += "}}";
}

void append_finish(std::string& out, FinishReason finish, const StopReason& stop) {
  out += R"("finish_reason":)";
  out += finish == FinishReason::stop ? R"("stop")" : R"("length")";
  out += R"(,"stop_reason":)";
  if (const auto* text = std::get_if<std::string>(&stop)) {
    append_string(out, *text);
  } else if (const auto* id = std::get_if<std::int32_t>(&stop)) {
    append_integer(out, *id);
  } else {
    out += "null";
  }
}

}  // namespace grokd::api

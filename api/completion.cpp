#include "api/completion.h"

#include <algorithm>

#include "api/error.h"
#include "api/json_writer.h"
#include "api/sse.h"

namespace grokd::api {
namespace {

bool all_of_kind(const JsonArray& values, bool (*is_kind)(const JsonValue&)) {
  return std::ranges::all_of(values, is_kind);
}
bool is_string(const JsonValue& value) { return value.string() != nullptr; }
bool is_number(const JsonValue& value) { return value.is_number(); }
bool is_array(const JsonValue& value) { return value.array() != nullptr; }

[[noreturn]] void throw_prompt_type() {
  throw errors::invalid_type(
      "prompt",
      "'prompt' must be a string, an array of strings, an array of token ids or an array of such arrays.");
}

/// The four forms of section "prompt": string, [string], [int], [[int]].
std::vector<Prompt> read_prompt_forms(const JsonValue& value, const RequestLimits& limits) {
  std::vector<Prompt> prompts;
  if (value.string()) {
    prompts.emplace_back(*value.string());
    return prompts;
  }
  if (!value.array()) throw_prompt_type();
  const JsonArray& values = *value.array();
  if (values.empty()) throw errors::invalid_value("prompt", "'prompt' must not be an empty array.");
  if (all_of_kind(values, is_number)) {
    prompts.emplace_back(read_prompt_ids(values, "prompt", limits));
    return prompts;
  }
  const bool strings = all_of_kind(values, is_string);
  if (!strings && !all_of_kind(values, is_array)) throw_prompt_type();
  if (values.size() > static_cast<std::size_t>(limits.max_prompts)) {
    throw errors::invalid_value(
        "prompt", "'prompt' may hold at most " + std::to_string(limits.max_prompts) + " prompts.");
  }
  for (const JsonValue& one : values) {
    if (strings) {
      prompts.emplace_back(*one.string());
    } else {
      prompts.emplace_back(read_prompt_ids(*one.array(), "prompt", limits));
    }
  }
  return prompts;
}

bool is_empty(const Prompt& prompt) {
  return std::visit([](const auto& form) { return form.empty(); }, prompt);
}

std::vector<Prompt> read_prompts(FieldReader& fields, const RequestLimits& limits) {
  const JsonValue* value = fields.find("prompt");
  if (!value) throw errors::missing_required_parameter("prompt");
  std::vector<Prompt> prompts = read_prompt_forms(*value, limits);
  if (!limits.adds_bos && std::ranges::any_of(prompts, is_empty)) {
    throw errors::invalid_value("prompt", "An empty prompt is not allowed.");
  }
  return prompts;
}

/// Old clients send false for "none".
std::optional<int> read_logprobs(FieldReader& fields, const RequestLimits& limits) {
  const JsonValue* value = fields.find("logprobs");
  if (!value) return std::nullopt;
  if (value->boolean() && !*value->boolean()) return std::nullopt;
  return static_cast<int>(read_integer(*value, "logprobs", 0, limits.max_logprobs));
}

void read_lengths(FieldReader& fields, CompletionRequest& out) {
  out.echo = fields.boolean("echo").value_or(false);
  out.max_tokens = fields.integer("max_tokens", 0).value_or(16);
  if (out.max_tokens == 0 && !out.echo) {
    throw errors::invalid_value("max_tokens", "'max_tokens' may be 0 only when 'echo' is true.");
  }
  if (out.min_tokens > out.max_tokens) {
    throw errors::invalid_value("min_tokens", "'min_tokens' must not be above 'max_tokens'.");
  }
}

void read_best_of(FieldReader& fields, const RequestLimits& limits, CompletionRequest& out) {
  out.best_of =
      static_cast<int>(fields.integer("best_of", out.n, std::max(out.n, limits.max_best_of)).value_or(out.n));
  if (out.stream && out.best_of != out.n) {
    throw errors::invalid_value("best_of", "'best_of' different from 'n' cannot be streamed.");
  }
  const auto prompts = static_cast<std::int64_t>(out.prompts.size());
  if (prompts * out.best_of > limits.max_choices) {
    throw errors::invalid_value(
        out.best_of > out.n ? "best_of" : "n",
        "A request may have at most " + std::to_string(limits.max_choices) + " choices.");
  }
}

/// `{"index":...,"text":...,"logprobs":...,`
void append_choice_begin(std::string& out, int index, std::string_view text,
                         const std::vector<TokenLogprob>* logprobs) {
  out += R"({"index":)";
  append_integer(out, index);
  out += R"(,"text":)";
  append_string(out, text);
  out += R"(,"logprobs":)";
  if (logprobs) {
    append_completion_logprobs(out, *logprobs);
  } else {
    out += "null";
  }
  out += ',';
}

}  // namespace

CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits) {
  const JsonValue json = parse_json_object(body);
  FieldReader fields(*json.object());
  CompletionRequest out;
  read_generation_fields(fields, limits, out);
  out.prompts = read_prompts(fields, limits);
  out.logprobs = read_logprobs(fields, limits);
  read_lengths(fields, out);
  read_best_of(fields, limits, out);
  out.unknown_fields = fields.unknown_fields();
  return out;
}

std::string to_json(const CompletionResponse& response) {
  std::string out;
  append_head(out, response.head, "text_completion");
  for (const CompletionChoice& choice : response.choices) {
    if (&choice != response.choices.data()) out += ',';
    append_choice_begin(out, choice.index, choice.text, pointer_to(choice.logprobs));
    append_finish(out, choice.finish_reason, choice.stop_reason);
    append_token_ids(out, pointer_to(choice.token_ids), pointer_to(choice.prompt_token_ids));
    out += '}';
  }
  out += R"(],"usage":)";
  append_usage(out, response.usage);
  out += '}';
  return out;
}

CompletionChunkWriter::CompletionChunkWriter(const ResponseHead& head, bool include_usage)
    : prefix_(kSseData), suffix_(include_usage ? R"(}],"usage":null})" : "}]}") {
  append_head(prefix_, head, "text_completion");
  suffix_ += kSseEnd;
}

void CompletionChunkWriter::begin(std::string& out, const CompletionDelta& delta) const {
  out += prefix_;
  append_choice_begin(out, delta.index, delta.text, delta.logprobs);
}

void CompletionChunkWriter::end(std::string& out, const CompletionDelta& delta) const {
  append_token_ids(out, delta.token_ids, delta.prompt_token_ids);
  out += suffix_;
}

void CompletionChunkWriter::append_text(std::string& out, const CompletionDelta& delta) const {
  begin(out, delta);
  out += R"("finish_reason":null)";
  end(out, delta);
}

void CompletionChunkWriter::append_finish(std::string& out, const CompletionDelta& delta, FinishReason finish,
                                          const StopReason& stop) const {
  begin(out, delta);
  api::append_finish(out, finish, stop);
  end(out, delta);
}

void CompletionChunkWriter::append_usage(std::string& out, const Usage& usage) const {
  out += prefix_;
  out += R"(],"usage":)";
  api::append_usage(out, usage);
  out += '}';
  out += kSseEnd;
}

}  // namespace grokd::api

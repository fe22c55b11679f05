#include "api/chat.h"

#include <algorithm>
#include <array>

#include "api/error.h"
#include "api/json_writer.h"
#include "api/sse.h"

namespace grokd::api {
namespace {

struct RoleName {
  std::string_view name;
  ChatRole role;
};

constexpr std::array kRoles = {
    RoleName{"system", ChatRole::system}, RoleName{"developer", ChatRole::system},
    RoleName{"user", ChatRole::user},     RoleName{"assistant", ChatRole::assistant},
    RoleName{"tool", ChatRole::tool},
};

ChatRole read_role(FieldReader& fields) {
  const std::string* name = fields.string("role");
  if (!name) throw errors::missing_required_parameter(fields.path("role"));
  const auto role = std::ranges::find(kRoles, *name, &RoleName::name);
  if (role != kRoles.end()) return role->role;
  throw errors::invalid_value(
      fields.path("role"),
      "A role must be system, developer, user, assistant or tool, not " + quote_bytes(*name) + ".");
}

std::string read_part(const JsonValue& value, const std::string& path) {
  FieldReader part(read_object(value, path), path);
  const std::string* type = part.string("type");
  if (!type) throw errors::missing_required_parameter(part.path("type"));
  if (*type == "text") {
    const std::string* text = part.string("text");
    if (!text) throw errors::missing_required_parameter(part.path("text"));
    return *text;
  }
  constexpr std::array<std::string_view, 3> kKnownTypes = {"image_url", "input_audio", "file"};
  if (std::ranges::find(kKnownTypes, *type) != kKnownTypes.end()) {
    throw errors::unsupported_parameter(path,
                                        "Parts of type " + *type + " are not supported by this server.");
  }
  throw errors::invalid_value(part.path("type"), "The part type " + quote_bytes(*type) + " is not known.");
}

std::string read_content(FieldReader& fields, ChatRole role) {
  const JsonValue* value = fields.find("content");
  const std::string path = fields.path("content");
  if (!value && role == ChatRole::assistant) return {};
  if (!value) throw errors::missing_required_parameter(path);
  if (value->string()) return *value->string();
  if (!value->array()) {
    throw errors::invalid_type(path, "'" + path + "' must be a string or an array of text parts.");
  }
  if (value->array()->empty())
    throw errors::invalid_value(path, "'" + path + "' must not be an empty array.");
  std::string content;
  for (std::size_t i = 0; i < value->array()->size(); ++i) {
    content += read_part((*value->array())[i], element_path(path, i));
  }
  return content;
}

ChatMessage read_message(const JsonValue& value, const std::string& path) {
  FieldReader fields(read_object(value, path), path);
  ChatMessage message;
  message.role = read_role(fields);
  message.content = read_content(fields, message.role);
  if (const std::string* name = fields.string("name", 0, 64)) message.name = *name;
  for (const std::string_view name : {"tool_calls", "function_call", "audio"}) {
    const JsonValue* call = fields.find(name);
    if (!call || (call->array() && call->array()->empty())) continue;
    throw errors::unsupported_parameter(fields.path(name), "'" + fields.path(name) + "' is not supported.");
  }
  return message;
}

/// Fields of OpenAI's that change nothing here; read, so that they do not count as unknown.
void accept_ignored_fields(FieldReader& fields) {
  constexpr std::string_view kIgnored[] = {"parallel_tool_calls",
                                           "store",
                                           "metadata",
                                           "reasoning_effort",
                                           "verbosity",
                                           "safety_identifier",
                                           "prompt_cache_key",
                                           "prompt_cache_retention"};
  for (const std::string_view name : kIgnored) fields.find(name);
  const JsonArray* modalities = fields.array("modalities");
  if (!modalities) return;
  for (const JsonValue& modality : *modalities) {
    if (read_string(modality, "modalities") == "text") continue;
    throw errors::unsupported_parameter("modalities", "Only the modality text is supported by this server.");
  }
}

void refuse_completion_fields(FieldReader& fields) {
  for (const std::string_view name : {"prompt", "best_of", "echo"}) {
    if (!fields.find(name)) continue;
    throw errors::unsupported_parameter(
        std::string(name), "'" + std::string(name) + "' is not a parameter of chat completions.");
  }
}

void read_lengths(FieldReader& fields, ChatRequest& out) {
  const auto newer = fields.integer("max_completion_tokens", 1);
  const auto older = fields.integer("max_tokens", 1);
  if (newer && older && *newer != *older) {
    throw errors::invalid_value("max_tokens",
                                "'max_tokens' and 'max_completion_tokens' differ; send one of them.");
  }
  out.max_tokens = newer ? newer : older;
  if (out.max_tokens && out.min_tokens > *out.max_tokens) {
    throw errors::invalid_value("min_tokens", "'min_tokens' must not be above 'max_tokens'.");
  }
}

void read_logprobs(FieldReader& fields, const RequestLimits& limits, ChatRequest& out) {
  out.logprobs = fields.boolean("logprobs").value_or(false);
  out.top_logprobs = static_cast<int>(fields.integer("top_logprobs", 0, limits.max_logprobs).value_or(0));
  if (out.top_logprobs > 0 && !out.logprobs) {
    throw errors::invalid_value("top_logprobs", "'top_logprobs' needs 'logprobs' to be true.");
  }
}

void read_template_kwargs(FieldReader& fields, ChatRequest& out) {
  constexpr std::size_t kMaxBytes = 4096;
  if (!fields.object("chat_template_kwargs")) return;
  fields.find("chat_template_kwargs")->append_text(out.chat_template_kwargs);
  if (out.chat_template_kwargs.size() <= kMaxBytes) return;
  throw errors::invalid_value("chat_template_kwargs", "'chat_template_kwargs' may have at most 4096 bytes.");
}

void append_logprobs(std::string& out, const std::vector<TokenLogprob>* logprobs) {
  out += R"(,"logprobs":)";
  if (logprobs) {
    append_chat_logprobs(out, *logprobs);
  } else {
    out += "null";
  }
}

void append_choice(std::string& out, const ChatChoice& choice) {
  out += R"({"index":)";
  append_integer(out, choice.index);
  out += R"(,"message":{"role":"assistant","content":)";
  append_string(out, choice.content);
  out += R"(,"refusal":null})";
  append_logprobs(out, pointer_to(choice.logprobs));
  out += ',';
  append_finish(out, choice.finish_reason, choice.stop_reason);
  append_token_ids(out, pointer_to(choice.token_ids), pointer_to(choice.prompt_token_ids));
  out += '}';
}

constexpr std::string_view kNotFinished = R"("finish_reason":null)";

}  // namespace

std::vector<ChatMessage> read_messages(FieldReader& fields, const RequestLimits& limits) {
  const JsonArray* values = fields.array("messages");
  if (!values) throw errors::missing_required_parameter("messages");
  if (values->empty() || values->size() > static_cast<std::size_t>(limits.max_messages)) {
    throw errors::invalid_value("messages", "'messages' must have between 1 and " +
                                                std::to_string(limits.max_messages) + " messages.");
  }
  std::vector<ChatMessage> messages;
  messages.reserve(values->size());
  for (const JsonValue& value : *values) {
    messages.push_back(read_message(value, element_path("messages", messages.size())));
  }
  return messages;
}

void read_turn_end(FieldReader& fields, const std::vector<ChatMessage>& messages, bool& add_generation_prompt,
                   bool& continue_final_message) {
  const auto add = fields.boolean("add_generation_prompt");
  continue_final_message = fields.boolean("continue_final_message").value_or(false);
  add_generation_prompt = add.value_or(!continue_final_message);
  if (add_generation_prompt && continue_final_message) {
    throw errors::invalid_value("continue_final_message",
                                "'continue_final_message' and 'add_generation_prompt' exclude each other.");
  }
  if (continue_final_message && messages.back().role != ChatRole::assistant) {
    throw errors::invalid_value("continue_final_message", "The last message must be the assistant's.");
  }
}

ChatRequest parse_chat_request(std::string_view body, const RequestLimits& limits) {
  const JsonValue json = parse_json_object(body);
  FieldReader fields(*json.object());
  ChatRequest out;
  read_generation_fields(fields, limits, out);
  refuse_completion_fields(fields);
  accept_ignored_fields(fields);
  out.messages = read_messages(fields, limits);
  read_lengths(fields, out);
  read_logprobs(fields, limits, out);
  read_turn_end(fields, out.messages, out.add_generation_prompt, out.continue_final_message);
  read_template_kwargs(fields, out);
  out.unknown_fields = fields.unknown_fields();
  return out;
}

std::string to_json(const ChatResponse& response) {
  std::string out;
  append_head(out, response.head, "chat.completion");
  for (const ChatChoice& choice : response.choices) {
    if (&choice != response.choices.data()) out += ',';
    append_choice(out, choice);
  }
  out += R"(],"usage":)";
  append_usage(out, response.usage);
  out += '}';
  return out;
}

ChatChunkWriter::ChatChunkWriter(const ResponseHead& head, bool include_usage)
    : prefix_(kSseData), suffix_(include_usage ? R"(}],"usage":null})" : "}]}") {
  append_head(prefix_, head, "chat.completion.chunk");
  suffix_ += kSseEnd;
}

void ChatChunkWriter::begin(std::string& out, const ChatDelta& delta) const {
  out += prefix_;
  out += R"({"index":)";
  append_integer(out, delta.index);
  out += R"(,"delta":{)";
}

void ChatChunkWriter::end(std::string& out, const ChatDelta& delta, std::string_view finish) const {
  out += '}';
  append_logprobs(out, delta.logprobs);
  out += ',';
  out += finish;
  append_token_ids(out, delta.token_ids, delta.prompt_token_ids);
  out += suffix_;
}

void ChatChunkWriter::append_role(std::string& out, const ChatDelta& delta) const {
  begin(out, delta);
  out += R"("role":"assistant","content":"")";
  end(out, delta, kNotFinished);
}

void ChatChunkWriter::append_text(std::string& out, const ChatDelta& delta) const {
  begin(out, delta);
  out += R"("content":)";
  append_string(out, delta.content);
  end(out, delta, kNotFinished);
}

void ChatChunkWriter::append_finish(std::string& out, const ChatDelta& delta, FinishReason finish,
                                    const StopReason& stop) const {
  begin(out, delta);
  if (!delta.content.empty()) {
    out += R"("content":)";
    append_string(out, delta.content);
  }
  std::string reason;
  api::append_finish(reason, finish, stop);
  end(out, delta, reason);
}

void ChatChunkWriter::append_usage(std::string& out, const Usage& usage) const {
  out += prefix_;
  out += R"(],"usage":)";
  api::append_usage(out, usage);
  out += '}';
  out += kSseEnd;
}

void LeadingSpace::remove(std::string& text, std::vector<TokenLogprob>* logprobs) {
  if (at_start_of_text_ && !text.empty()) {
    at_start_of_text_ = false;
    if (text.front() == ' ') text.erase(0, 1);
  }
  if (!logprobs) return;
  for (TokenLogprob& token : *logprobs) {
    if (!at_start_of_tokens_) return;
    if (token.bytes.empty()) continue;
    at_start_of_tokens_ = false;
    if (token.bytes.front() == ' ') token.bytes.erase(0, 1);
  }
}

}  // namespace grokd::api

#include "api/common.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "api/error.h"
#include "api/json_writer.h"

namespace grokd::api {
namespace {

void read_sampling(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  out.temperature = fields.number("temperature", 0, 2).value_or(1);
  out.top_p = fields.number("top_p", 0, 1).value_or(1);
  out.min_p = fields.number("min_p", 0, 1).value_or(0);
  const std::int64_t top_k = fields.integer("top_k", -1).value_or(0);
  out.top_k = top_k > 0 && top_k <= limits.vocab_size ? static_cast<int>(top_k) : 0;
  out.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  out.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  constexpr double kLeastPenalty = 1e-6;  // logits divided by it stay finite
  out.repetition_penalty = fields.number("repetition_penalty", kLeastPenalty, 10).value_or(1);
  out.seed = fields.integer("seed");
}

/// A key of logit_bias: decimal, no sign, no leading zeros (else two keys could mean one id).
TokenId read_bias_id(const std::string& key, const RequestLimits& limits) {
  std::int64_t id = -1;
  const char* end = key.data() + key.size();
  const auto [rest, failure] = std::from_chars(key.data(), end, id);
  const bool plain =
      failure == std::errc() && rest == end && key[0] != '-' && (key[0] != '0' || key.size() == 1);
  if (plain && id >= 0 && id < limits.vocab_size) return static_cast<TokenId>(id);
  throw errors::invalid_token("logit_bias", "The key " + quote_bytes(key) +
                                                " of 'logit_bias' is not a token id of 0 to " +
                                                std::to_string(limits.vocab_size - 1) + ".");
}

void read_logit_bias(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  const JsonObject* bias = fields.object("logit_bias");
  if (!bias) return;
  if (bias->members().size() > static_cast<std::size_t>(limits.max_logit_bias)) {
    throw errors::invalid_value(
        "logit_bias", "'logit_bias' may have at most " + std::to_string(limits.max_logit_bias) + " entries.");
  }
  for (const auto& [key, value] : bias->members()) {
    const TokenId id = read_bias_id(key, limits);
    out.logit_bias.push_back({id, read_number(value, "logit_bias", -100, 100)});
  }
}

std::string read_stop(const JsonValue& value, const RequestLimits& limits) {
  const std::string& stop = read_string(value, "stop");
  if (!stop.empty() && stop.size() <= static_cast<std::size_t>(limits.max_stop_bytes)) return stop;
  throw errors::invalid_value("stop", "Each string of 'stop' must have between 1 and " +
                                          std::to_string(limits.max_stop_bytes) + " bytes.");
}

void read_stops(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  const JsonValue* value = fields.find("stop");
  if (!value) return;
  if (value->string()) {
    out.stop.push_back(read_stop(*value, limits));
    return;
  }
  if (!value->array()) throw errors::invalid_type("stop", "'stop' must be a string or an array of strings.");
  if (value->array()->size() > static_cast<std::size_t>(limits.max_stops)) {
    throw errors::invalid_value("stop",
                                "'stop' may have at most " + std::to_string(limits.max_stops) + " strings.");
  }
  for (const JsonValue& stop : *value->array()) out.stop.push_back(read_stop(stop, limits));
}

void read_stop_token_ids(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  const JsonArray* ids = fields.array("stop_token_ids");
  if (!ids) return;
  if (ids->size() > static_cast<std::size_t>(limits.max_stop_token_ids)) {
    throw errors::invalid_value("stop_token_ids", "'stop_token_ids' may have at most " +
                                                      std::to_string(limits.max_stop_token_ids) + " ids.");
  }
  for (const JsonValue& value : *ids) {
    const std::int64_t id = read_integer(value, "stop_token_ids", 0, limits.vocab_size - 1);
    out.stop_token_ids.push_back(static_cast<TokenId>(id));
  }
}

void read_stream(FieldReader& fields, GenerationFields& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const JsonObject* options = fields.object("stream_options");
  if (!options) return;
  if (!out.stream) {
    throw errors::invalid_value("stream_options", "'stream_options' is only allowed when 'stream' is true.");
  }
  FieldReader reader(*options, "stream_options");
  out.stream_options.include_usage = reader.boolean("include_usage").value_or(false);
  reader.boolean("include_obfuscation");
}

constexpr std::array<std::string_view, 4> kTierNames = {"auto", "default", "flex", "priority"};

void read_scheduling(FieldReader& fields, GenerationFields& out) {
  out.priority = static_cast<int>(fields.integer("priority", -100, 100).value_or(0));
  out.timeout_seconds = fields.number("timeout", 0.1, 86400);
  if (const std::string* user = fields.string("user", 0, 256)) out.user = *user;
  if (const std::string* salt = fields.string("cache_salt", 1, 1024)) out.cache_salt = *salt;
  const std::string* tier = fields.string("service_tier");
  if (!tier) return;
  const auto name = std::ranges::find(kTierNames, *tier);
  if (name == kTierNames.end()) {
    throw errors::invalid_value("service_tier", "'service_tier' must be auto, default, flex or priority.");
  }
  out.service_tier = static_cast<ServiceTier>(name - kTierNames.begin());
}

ResponseFormat read_json_schema(const JsonObject& format) {
  FieldReader outer(format, "response_format");
  const JsonObject* json_schema = outer.object("json_schema");
  if (!json_schema) throw errors::missing_required_parameter("response_format.json_schema");
  FieldReader reader(*json_schema, "response_format.json_schema");
  ResponseFormat out;
  out.type = ResponseFormat::Type::json_schema;
  if (const std::string* name = reader.string("name", 1, 64)) out.schema_name = *name;
  reader.string("description");
  out.strict = reader.boolean("strict").value_or(false);
  const JsonValue* schema = reader.find("schema");
  if (!schema) return out;
  if (!schema->boolean()) read_object(*schema, reader.path("schema"));
  schema->append_text(out.schema);
  return out;
}

ResponseFormat read_response_format(FieldReader& fields) {
  const JsonObject* format = fields.object("response_format");
  if (!format) return {};
  FieldReader reader(*format, "response_format");
  const std::string* type = reader.string("type");
  if (!type) throw errors::missing_required_parameter("response_format.type");
  if (*type == "text") return {};
  if (*type == "json_object") return {ResponseFormat::Type::json_object, "", "", false};
  if (*type == "json_schema") return read_json_schema(*format);
  throw errors::invalid_value("response_format.type",
                              "'response_format.type' must be text, json_object or json_schema.");
}

std::string read_constraint(FieldReader& fields, std::string_view name, const RequestLimits& limits) {
  const std::string* text = fields.string(name);
  if (!text) return {};
  const std::string param(name);
  if (!limits.constrained_output) {
    throw errors::unsupported_parameter(param, "'" + param + "' is not supported by this server.");
  }
  if (!text->empty() && text->size() <= static_cast<std::size_t>(limits.max_grammar_bytes)) return *text;
  throw errors::invalid_value(param, "'" + param + "' must have between 1 and " +
                                         std::to_string(limits.max_grammar_bytes) + " bytes.");
}

void read_constraints(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  out.grammar = read_constraint(fields, "grammar", limits);
  out.regex = read_constraint(fields, "regex", limits);
  out.response_format = read_response_format(fields);
  const bool formatted = out.response_format.type != ResponseFormat::Type::text;
  if (formatted && !limits.constrained_output) {
    throw errors::unsupported_parameter("response_format", "Only the type text is supported by this server.");
  }
  if (!out.grammar.empty() && !out.regex.empty()) {
    throw errors::invalid_value("regex", "'grammar' and 'regex' exclude each other.");
  }
  if (formatted && !(out.grammar.empty() && out.regex.empty())) {
    throw errors::invalid_value("response_format", "'response_format' excludes 'grammar' and 'regex'.");
  }
}

/// Whether a value of an unsupported field asks for nothing: [], {}, "", "none", false.
bool asks_for_nothing(const JsonValue& value) {
  if (value.array()) return value.array()->empty();
  if (value.object()) return value.object()->members().empty();
  if (value.string()) return value.string()->empty() || *value.string() == "none";
  return value.boolean() && !*value.boolean();
}

}  // namespace

std::string_view name_of(ServiceTier tier) { return kTierNames[static_cast<std::size_t>(tier)]; }

void read_generation_fields(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  out.model = read_model(fields, limits);
  read_sampling(fields, limits, out);
  read_logit_bias(fields, limits, out);
  out.n = static_cast<int>(fields.integer("n", 1, limits.max_n).value_or(1));
  read_stream(fields, out);
  read_stops(fields, limits, out);
  read_stop_token_ids(fields, limits, out);
  out.min_tokens = fields.integer("min_tokens", 0).value_or(0);
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  out.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  read_scheduling(fields, out);
  read_constraints(fields, limits, out);
  refuse_unsupported_fields(fields);
}

std::string read_model(FieldReader& fields, const RequestLimits& limits) {
  if (const std::string* model = fields.string("model", 1, 256)) return *model;
  if (limits.model_required) throw errors::missing_required_parameter("model");
  return {};
}

TokenId read_prompt_id(const JsonValue& value, const std::string& param, const RequestLimits& limits) {
  if (!value.is_number()) {
    throw errors::invalid_type(param,
                               "'" + param + "' must hold token ids, not " + std::string(value.kind()) + ".");
  }
  const std::int64_t id = read_integer(value, param, kMinInt64, kMaxInt64);
  if (id >= 0 && id < limits.vocab_size && id != limits.pad_token) return static_cast<TokenId>(id);
  throw errors::invalid_token(param, "The token id " + std::to_string(id) + " of '" + param +
                                         "' is not one a prompt may have: ids are below " +
                                         std::to_string(limits.vocab_size) + ", and padding is not allowed.");
}

std::vector<TokenId> read_prompt_ids(const JsonArray& values, const std::string& param,
                                     const RequestLimits& limits) {
  std::vector<TokenId> ids;
  ids.reserve(values.size());
  for (const JsonValue& value : values) ids.push_back(read_prompt_id(value, param, limits));
  return ids;
}

void refuse_unsupported_fields(FieldReader& fields) {
  constexpr std::string_view kUnsupported[] = {
      "tools", "tool_choice", "functions",          "function_call",
      "audio", "prediction",  "web_search_options", "suffix",
  };
  for (const std::string_view name : kUnsupported) {
    const JsonValue* value = fields.find(name);
    if (!value || asks_for_nothing(*value)) continue;
    throw errors::unsupported_parameter(std::string(name),
                                        "'" + std::string(name) + "' is not supported by this server.");
  }
}

double parse_timeout_header(std::string_view value) {
  constexpr const char* kHeader = "X-Request-Timeout";
  double seconds = 0;
  const char* end = value.data() + value.size();
  const auto [rest, failure] = std::from_chars(value.data(), end, seconds);
  const bool in_range = seconds >= 0.1 && seconds <= 86400;
  if (failure == std::errc() && rest == end && in_range) return seconds;
  throw errors::invalid_value(kHeader,
                              "The header X-Request-Timeout must be a number of seconds between 0.1 and "
                              "86400.");
}

void append_head(std::string& out, const ResponseHead& head, std::string_view object) {
  out += R"({"id":)";
  append_string(out, head.id);
  out += R"(,"object":)";
  append_string(out, object);
  out += R"(,"created":)";
  append_integer(out, head.created);
  out += R"(,"model":)";
  append_string(out, head.model);
  out += R"(,"system_fingerprint":)";
  append_string(out, head.system_fingerprint);
  if (head.service_tier) {
    out += R"(,"service_tier":)";
    append_string(out, name_of(*head.service_tier));
  }
  if (head.seed_used) {
    out += R"(,"seed_used":)";
    append_integer(out, *head.seed_used);
  }
  out += R"(,"choices":[)";
}

void append_token_ids(std::string& out, const std::vector<TokenId>* token_ids,
                      const std::vector<TokenId>* prompt_token_ids) {
  if (token_ids) {
    out += R"(,"token_ids":)";
    append_integers(out, *token_ids);
  }
  if (prompt_token_ids) {
    out += R"(,"prompt_token_ids":)";
    append_integers(out, *prompt_token_ids);
  }
}

}  // namespace grokd::api

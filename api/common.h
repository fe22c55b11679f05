#pragma once
// What completions and chat completions share: limits, sampling fields, the head of an answer.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"

namespace grokd::api {

using TokenId = std::int32_t;

/// What ranges depend on: the model and the server's settings.
struct RequestLimits {
  int vocab_size = 131072;
  int context = 8192;
  int pad_token = 0;                // refused in prompts given as ids; -1: none
  bool adds_bos = false;            // an empty prompt is allowed, because it is not empty for the model
  bool model_required = false;      // more than one model is served
  bool constrained_output = false;  // grammar, regex and response_format are built in
  int max_n = 16;
  int max_choices = 128;  // prompts * n, and prompts * best_of
  int max_best_of = 20;
  int max_prompts = 128;
  int max_messages = 1024;
  int max_stops = 16;
  int max_stop_bytes = 512;
  int max_stop_token_ids = 64;
  int max_logprobs = 20;
  int max_logit_bias = 1024;
  int max_grammar_bytes = 64 * 1024;
};

struct StreamOptions {
  bool include_usage = false;
};

struct LogitBias {
  TokenId id = 0;
  double bias = 0;  // -100..100; -100 bans, 100 forces
};

/// How the answer must look.
struct ResponseFormat {
  enum class Type { text, json_object, json_schema };
  Type type = Type::text;
  std::string schema_name;
  std::string schema;  // JSON text, "" if none
  bool strict = false;
};

enum class ServiceTier { automatic, standard, flex, priority };
std::string_view name_of(ServiceTier tier);  // "auto", "default", "flex", "priority"

/// Fields of both routes; the defaults are those of an absent field.
struct GenerationFields {
  std::string model;  // "" = absent
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  int top_k = 0;  // 0 = off
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  std::vector<LogitBias> logit_bias;
  std::optional<std::int64_t> seed;
  int n = 1;
  bool stream = false;
  StreamOptions stream_options;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  std::int64_t min_tokens = 0;  // not above max_tokens as asked; clamp with it
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  int priority = 0;                       // -100..100, lower first
  std::optional<double> timeout_seconds;  // 0.1..86400
  std::string user;
  std::string cache_salt;
  std::string grammar, regex;  // "" = none; at most one, and only with response_format text
  ResponseFormat response_format;
  ServiceTier service_tier = ServiceTier::automatic;
  int unknown_fields = 0;  // ignored; for the log
};

void read_generation_fields(FieldReader& fields, const RequestLimits& limits, GenerationFields& out);

/// "model": 1..256 characters. Throws missing_required_parameter if it is required and absent.
std::string read_model(FieldReader& fields, const RequestLimits& limits);

/// An id of the vocabulary that may stand in a prompt: throws invalid_token otherwise.
TokenId read_prompt_id(const JsonValue& value, const std::string& param, const RequestLimits& limits);
std::vector<TokenId> read_prompt_ids(const JsonArray& values, const std::string& param,
                                     const RequestLimits& limits);

/// OpenAI fields that this server does not do. Throws unsupported_parameter if a value asks for one.
void refuse_unsupported_fields(FieldReader& fields);

/// The header X-Request-Timeout: seconds, 0.1..86400. Throws invalid_value with the header's name as param.
double parse_timeout_header(std::string_view value);

/// What all events of a stream and the plain answer begin with.
struct ResponseHead {
  std::string id{};          // "cmpl-..." or "chatcmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model{};       // the served id
  std::string system_fingerprint{};
  std::optional<ServiceTier> service_tier{};  // the tier used
  std::optional<std::int64_t> seed_used{};
};

/// `{"id":...,"object":...,...,"choices":[`
void append_head(std::string& out, const ResponseHead& head, std::string_view object);

/// `,"token_ids":[...],"prompt_token_ids":[...]`, each only if not null.
void append_token_ids(std::string& out, const std::vector<TokenId>* token_ids,
                      const std::vector<TokenId>* prompt_token_ids);

template <class T>
const T* pointer_to(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

}  // namespace grokd::api

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/api/refusal.h"

using namespace grokd::api;
using namespace grokd::api::test;

namespace {

CompletionRequest parse(std::string_view body, const RequestLimits& limits = small_limits()) {
  return parse_completion_request(body, limits);
}

CompletionRequest parse_members(const std::string& members, const RequestLimits& limits = small_limits()) {
  return parse(completion_body(members), limits);
}

struct Refusal {
  std::string members, expected;
};

}  // namespace

TEST_CASE("an absent field has its default") {
  const CompletionRequest request = parse(R"({"prompt":"Hi"})");
  CHECK(request.model.empty());
  CHECK(request.prompts == std::vector<Prompt>{"Hi"});
  CHECK(request.max_tokens == 16);
  CHECK(request.temperature == 1);
  CHECK(request.top_p == 1);
  CHECK(request.top_k == 0);
  CHECK(request.min_p == 0);
  CHECK(request.n == 1);
  CHECK(request.best_of == 1);
  CHECK_FALSE(request.stream);
  CHECK_FALSE(request.stream_options.include_usage);
  CHECK(request.stop.empty());
  CHECK_FALSE(request.logprobs.has_value());
  CHECK_FALSE(request.echo);
  CHECK(request.presence_penalty == 0);
  CHECK(request.frequency_penalty == 0);
  CHECK(request.repetition_penalty == 1);
  CHECK(request.logit_bias.empty());
  CHECK_FALSE(request.seed.has_value());
  CHECK(request.user.empty());
  CHECK_FALSE(request.ignore_eos);
  CHECK(request.min_tokens == 0);
  CHECK(request.stop_token_ids.empty());
  CHECK(request.skip_special_tokens);
  CHECK_FALSE(request.return_token_ids);
  CHECK(request.priority == 0);
  CHECK_FALSE(request.timeout_seconds.has_value());
  CHECK(request.cache_salt.empty());
  CHECK(request.grammar.empty());
  CHECK(request.regex.empty());
  CHECK(request.service_tier == ServiceTier::automatic);
  CHECK(request.response_format.type == ResponseFormat::Type::text);
  CHECK(request.unknown_fields == 0);
}

TEST_CASE("every optional field may be null and is then as if absent") {
  const CompletionRequest request = parse(
      R"({"prompt":"Hi","model":null,"max_tokens":null,"temperature":null,"top_p":null,"top_k":null,"min_p":null,
          "n":null,"best_of":null,"stream":null,"stream_options":null,"stop":null,"logprobs":null,"echo":null,
          "presence_penalty":null,"frequency_penalty":null,"repetition_penalty":null,"logit_bias":null,"seed":null,
          "user":null,"suffix":null,"ignore_eos":null,"min_tokens":null,"stop_token_ids":null,
          "skip_special_tokens":null,"return_token_ids":null,"priority":null,"timeout":null,"cache_salt":null,
          "grammar":null,"regex":null,"service_tier":null,"response_format":null,"tools":null,"tool_choice":null})");
  CHECK(request.max_tokens == 16);
  CHECK(request.temperature == 1);
  CHECK(request.n == 1);
  CHECK(request.best_of == 1);
  CHECK(request.skip_special_tokens);
  CHECK_FALSE(request.seed.has_value());
  CHECK_FALSE(request.logprobs.has_value());
  CHECK(request.unknown_fields == 0);
}

TEST_CASE("every field is read") {
  const CompletionRequest request = parse(
      R"({"model":"m","prompt":["a","b"],"max_tokens":5.0,"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,
          "n":2,"best_of":2,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},
          "stop":["x","yz"],"logprobs":3,"echo":true,"presence_penalty":-2,"frequency_penalty":2,
          "repetition_penalty":1.5,"logit_bias":{"0":-100,"99":100,"5":0.5},"seed":-1,"user":"u","suffix":"",
          "ignore_eos":true,"min_tokens":5,"stop_token_ids":[0,99],"skip_special_tokens":false,
          "return_token_ids":true,"priority":-100,"timeout":0.1,"cache_salt":"s","grammar":"root ::= \"a\"",
          "service_tier":"flex"})",
      constrained_limits());
  CHECK(request.model == "m");
  CHECK(request.prompts == std::vector<Prompt>{"a", "b"});
  CHECK(request.max_tokens == 5);
  CHECK(request.temperature == 0.5);
  CHECK(request.top_p == 0.25);
  CHECK(request.top_k == 7);
  CHECK(request.min_p == 0.125);
  CHECK(request.n == 2);
  CHECK(request.best_of == 2);
  CHECK(request.stream);
  CHECK(request.stream_options.include_usage);
  CHECK(request.stop == std::vector<std::string>{"x", "yz"});
  CHECK(request.logprobs == 3);
  CHECK(request.echo);
  CHECK(request.presence_penalty == -2);
  CHECK(request.frequency_penalty == 2);
  CHECK(request.repetition_penalty == 1.5);
  REQUIRE(request.logit_bias.size() == 3);
  CHECK(request.logit_bias[1].id == 99);
  CHECK(request.logit_bias[1].bias == 100);
  CHECK(request.seed == -1);
  CHECK(request.user == "u");
  CHECK(request.ignore_eos);
  CHECK(request.min_tokens == 5);
  CHECK(request.stop_token_ids == std::vector<TokenId>{0, 99});
  CHECK_FALSE(request.skip_special_tokens);
  CHECK(request.return_token_ids);
  CHECK(request.priority == -100);
  CHECK(request.timeout_seconds == 0.1);
  CHECK(request.cache_salt == "s");
  CHECK(request.grammar == "root ::= \"a\"");
  CHECK(request.service_tier == ServiceTier::flex);
}

TEST_CASE("a prompt is a string, strings, ids or lists of ids") {
  using Ids = std::vector<TokenId>;
  CHECK(parse(R"({"prompt":"a\u0000b"})").prompts == std::vector<Prompt>{std::string("a\0b", 3)});
  CHECK(parse(R"({"prompt":["a"]})").prompts == std::vector<Prompt>{"a"});
  CHECK(parse(R"({"prompt":[5,6.0]})").prompts == std::vector<Prompt>{Ids{5, 6}});
  CHECK(parse(R"({"prompt":[[5],[6,99]]})").prompts == std::vector<Prompt>{Ids{5}, Ids{6, 99}});
}

TEST_CASE("a prompt that is absent, empty, mixed or of another kind is refused") {
  CHECK(refusal_of_completion("{}") == "400 missing_required_parameter prompt");
  CHECK(refusal_of_completion(R"({"prompt":null})") == "400 missing_required_parameter prompt");
  for (const char* prompt : {R"("")", R"([""])", "[]", "[[]]", R"(["a",""])", "[[5],[]]"}) {
    CAPTURE(prompt);
    CHECK(refusal_of_completion(R"({"prompt":)" + std::string(prompt) + "}") == "400 invalid_value prompt");
  }
  for (const char* prompt : {"5", "true", "{}", R"(["a",5])", R"([5,"a"])", "[5,[6]]", "[[5],6]", "[true]",
                             "[null]", "[1.5]", R"([["a"]])", "[[1.5]]", "[[true]]", "[[[5]]]"}) {
    CAPTURE(prompt);
    CHECK(refusal_of_completion(R"({"prompt":)" + std::string(prompt) + "}") == "400 invalid_type prompt");
  }
}

TEST_CASE("prompt ids outside the vocabulary and padding are refused") {
  for (const char* prompt :
       {"[-1]", "[[5,-1]]", "[100]", "[0]", "[[0]]", "[9223372036854775807]", "[2147483653]"}) {
    CAPTURE(prompt);
    CHECK(refusal_of_completion(R"({"prompt":)" + std::string(prompt) + "}") == "400 invalid_token prompt");
  }
  CHECK(refusal_of_completion(R"({"prompt":[1e30]})") == "400 invalid_value prompt");
  CHECK(refusal_of_completion(R"({"prompt":[1,99]})") == "accepted");
}

TEST_CASE("an empty prompt is allowed where the server adds a BOS") {
  RequestLimits limits = small_limits();
  limits.adds_bos = true;
  CHECK(refusal_of_completion(R"({"prompt":""})", limits) == "accepted");
  CHECK(refusal_of_completion(R"({"prompt":[[]]})", limits) == "accepted");
  CHECK(refusal_of_completion(R"({"prompt":[]})", limits) == "400 invalid_value prompt");
}

TEST_CASE("at most 128 prompts and 128 choices") {
  const auto prompts = [](int count) {
    std::string list = R"(["a")";
    for (int i = 1; i < count; ++i) list += R"(,"a")";
    return R"("prompt":)" + list + "]";
  };
  CHECK(refusal_of_completion("{" + prompts(128) + "}") == "accepted");
  CHECK(refusal_of_completion("{" + prompts(129) + "}") == "400 invalid_value prompt");
  CHECK(refusal_of_completion("{" + prompts(64) + R"(,"n":2})") == "accepted");
  CHECK(refusal_of_completion("{" + prompts(65) + R"(,"n":2})") == "400 invalid_value n");
  CHECK(refusal_of_completion("{" + prompts(65) + R"(,"best_of":2})") == "400 invalid_value best_of");
}

TEST_CASE("a value outside its range is refused, naming the field") {
  const std::vector<std::string> members = {
      R"("model":"")",
      R"("max_tokens":-1)",
      R"("max_tokens":1e30)",
      R"("temperature":-0.1)",
      R"("temperature":2.1)",
      R"("top_p":-0.1)",
      R"("top_p":1.1)",
      R"("top_k":-2)",
      R"("min_p":1.5)",
      R"("n":0)",
      R"("n":17)",
      R"("n":5000000)",
      R"("best_of":0)",
      R"("best_of":21)",
      R"("stop":"")",
      R"("stop":["a",""])",
      R"("logprobs":-1)",
      R"("logprobs":21)",
      R"("logprobs":1000000000)",
      R"("presence_penalty":2.5)",
      R"("frequency_penalty":-2.5)",
      R"("repetition_penalty":0)",
      R"("repetition_penalty":-1)",
      R"("repetition_penalty":10.5)",
      R"("logit_bias":{"5":101})",
      R"("logit_bias":{"5":-100.5})",
      R"("seed":9223372036854775808)",
      R"("seed":1e30)",
      R"("min_tokens":-1)",
      R"("min_tokens":17)",
      R"("stop_token_ids":[100])",
      R"("stop_token_ids":[-1])",
      R"("priority":101)",
      R"("priority":-101)",
      R"("timeout":0.05)",
      R"("timeout":86401)",
      R"("cache_salt":"")",
      R"("service_tier":"fast")",
      R"("response_format":{"type":"yaml"})",
  };
  for (const std::string& member : members) {
    CAPTURE(member);
    std::string field = member.substr(1, member.find('"', 1) - 1);
    if (field == "response_format") field += ".type";
    CHECK(refusal_of_completion(completion_body(member)) == "400 invalid_value " + field);
  }
}

TEST_CASE("a value of another type is refused, naming the field") {
  const std::vector<std::string> members = {
      R"("model":5)",
      R"("max_tokens":5.5)",
      R"("max_tokens":"5")",
      R"("max_tokens":true)",
      R"("temperature":"1")",
      R"("temperature":true)",
      R"("top_p":[])",
      R"("top_k":1.5)",
      R"("min_p":"0")",
      R"("n":"1")",
      R"("n":1.5)",
      R"("best_of":[])",
      R"("stream":1)",
      R"("stream":"true")",
      R"("stop":5)",
      R"("stop":[5])",
      R"("stop":[null])",
      R"("stop":{})",
      R"("logprobs":true)",
      R"("logprobs":"1")",
      R"("echo":0)",
      R"("presence_penalty":"")",
      R"("frequency_penalty":{})",
      R"("repetition_penalty":"1")",
      R"("logit_bias":[])",
      R"("logit_bias":{"5":"1"})",
      R"("logit_bias":{"5":null})",
      R"("seed":1.5)",
      R"("seed":"1")",
      R"("user":5)",
      R"("ignore_eos":1)",
      R"("min_tokens":"0")",
      R"("stop_token_ids":5)",
      R"("stop_token_ids":["5"])",
      R"("skip_special_tokens":"no")",
      R"("return_token_ids":1)",
      R"("priority":"high")",
      R"("timeout":"5")",
      R"("cache_salt":5)",
      R"("service_tier":1)",
      R"("response_format":"json")",
  };
  for (const std::string& member : members) {
    CAPTURE(member);
    const std::string field = member.substr(1, member.find('"', 1) - 1);
    CHECK(refusal_of_completion(completion_body(member)) == "400 invalid_type " + field);
  }
}

TEST_CASE("values at the ends of their ranges are accepted") {
  const std::vector<std::string> members = {
      R"("max_tokens":1)",
      R"("max_tokens":9223372036854775807)",
      R"("temperature":0)",
      R"("temperature":2)",
      R"("temperature":1e-30)",
      R"("top_p":0)",
      R"("top_p":1)",
      R"("min_p":1)",
      R"("n":16)",
      R"("best_of":20)",
      R"("logprobs":0)",
      R"("logprobs":20)",
      R"("logprobs":false)",
      R"("repetition_penalty":0.001)",
      R"("repetition_penalty":10)",
      R"("logit_bias":{})",
      R"("seed":0)",
      R"("seed":9223372036854775807)",
      R"("seed":-9223372036854775808)",
      R"("min_tokens":16)",
      R"("timeout":86400)",
      R"("stop":[])",
      R"("stop_token_ids":[])",
      R"("service_tier":"auto")",
      R"("service_tier":"default")",
      R"("service_tier":"priority")",
      R"("response_format":{"type":"text"})",
      R"("tools":[],"tool_choice":"none","functions":[],"function_call":"none")",
  };
  for (const std::string& member : members) {
    CAPTURE(member);
    CHECK(refusal_of_completion(completion_body(member)) == "accepted");
  }
}

TEST_CASE("a huge max_tokens is kept as asked, to be clamped") {
  CHECK(parse_members(R"("max_tokens":9223372036854775807)").max_tokens == INT64_MAX);
}

TEST_CASE("max_tokens may be 0 only with echo") {
  CHECK(refusal_of_completion(completion_body(R"("max_tokens":0)")) == "400 invalid_value max_tokens");
  CHECK(refusal_of_completion(completion_body(R"("max_tokens":0,"echo":false)")) ==
        "400 invalid_value max_tokens");
  CHECK(parse_members(R"("max_tokens":0,"echo":true)").max_tokens == 0);
}

TEST_CASE("top_k is off when it is 0, -1 or above the vocabulary") {
  CHECK(parse_members(R"("top_k":0)").top_k == 0);
  CHECK(parse_members(R"("top_k":-1)").top_k == 0);
  CHECK(parse_members(R"("top_k":100)").top_k == 100);
  CHECK(parse_members(R"("top_k":101)").top_k == 0);
  CHECK(parse_members(R"("top_k":9223372036854775807)").top_k == 0);
}

TEST_CASE("logprobs false is none and 0 is not") {
  CHECK_FALSE(parse_members(R"("logprobs":false)").logprobs.has_value());
  CHECK(parse_members(R"("logprobs":0)").logprobs == 0);
}

TEST_CASE("logit_bias keys are ids in plain decimal") {
  for (const char* key : {"100", "131072", "-1", "+5", "05", "00", "5.0", " 5", "5 ", "", "a", "0x5",
                          "9223372036854775808", "18446744073709551621"}) {
    CAPTURE(key);
    CHECK(refusal_of_completion(completion_body(R"("logit_bias":{")" + std::string(key) + R"(":1})")) ==
          "400 invalid_token logit_bias");
  }
}

TEST_CASE("logit_bias may have 1024 entries and not 1025") {
  RequestLimits limits = small_limits();
  limits.vocab_size = 2000;
  const auto body = [](int entries) {
    std::string bias = R"("0":1)";
    for (int i = 1; i < entries; ++i) bias += ",\"" + std::to_string(i) + "\":1";
    return completion_body(R"("logit_bias":{)" + bias + "}");
  };
  CHECK(refusal_of_completion(body(1024), limits) == "accepted");
  CHECK(refusal_of_completion(body(1025), limits) == "400 invalid_value logit_bias");
}

TEST_CASE("stop may have 16 strings of up to 512 bytes") {
  const auto stops = [](int count, const std::string& stop) {
    std::string list = "\"" + stop + "\"";
    for (int i = 1; i < count; ++i) list += ",\"" + stop + "\"";
    return completion_body(R"("stop":[)" + list + "]");
  };
  CHECK(parse(stops(16, "a")).stop.size() == 16);
  CHECK(refusal_of_completion(stops(17, "a")) == "400 invalid_value stop");
  CHECK(refusal_of_completion(stops(1, std::string(512, 'a'))) == "accepted");
  CHECK(refusal_of_completion(stops(1, std::string(513, 'a'))) == "400 invalid_value stop");
  CHECK(parse_members(R"("stop":"ab")").stop == std::vector<std::string>{"ab"});
}

TEST_CASE("strings have their longest lengths, in characters") {
  const auto repeated = [](const char* field, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "\xC3\xA9";
    return completion_body("\"" + std::string(field) + "\":\"" + text + "\"");
  };
  for (const auto& [field, longest] : {std::pair{"model", 256}, {"user", 256}, {"cache_salt", 1024}}) {
    CAPTURE(field);
    CHECK(refusal_of_completion(repeated(field, static_cast<std::size_t>(longest))) == "accepted");
    CHECK(refusal_of_completion(repeated(field, static_cast<std::size_t>(longest) + 1)) ==
          "400 invalid_value " + std::string(field));
  }
}

TEST_CASE("stop_token_ids may have 64 ids and not 65") {
  const auto body = [](int count) {
    std::string list = "1";
    for (int i = 1; i < count; ++i) list += ",1";
    return completion_body(R"("stop_token_ids":[)" + list + "]");
  };
  CHECK(refusal_of_completion(body(64)) == "accepted");
  CHECK(refusal_of_completion(body(65)) == "400 invalid_value stop_token_ids");
}

TEST_CASE("stream_options need a stream") {
  CHECK(refusal_of_completion(completion_body(R"("stream_options":{"include_usage":true})")) ==
        "400 invalid_value stream_options");
  CHECK(refusal_of_completion(completion_body(R"("stream":false,"stream_options":{})")) ==
        "400 invalid_value stream_options");
  CHECK(refusal_of_completion(completion_body(R"("stream":true,"stream_options":{"include_usage":1})")) ==
        "400 invalid_type stream_options.include_usage");
  CHECK(refusal_of_completion(completion_body(R"("stream":true,"stream_options":[])")) ==
        "400 invalid_type stream_options");
  CHECK(parse_members(R"("stream":true,"stream_options":{"include_usage":null})").stream);
}

TEST_CASE("best_of is at least n and cannot be streamed") {
  CHECK(parse_members(R"("n":3)").best_of == 3);
  CHECK(refusal_of_completion(completion_body(R"("n":3,"best_of":2)")) == "400 invalid_value best_of");
  CHECK(refusal_of_completion(completion_body(R"("best_of":2,"stream":true)")) ==
        "400 invalid_value best_of");
  CHECK(refusal_of_completion(completion_body(R"("n":2,"best_of":2,"stream":true)")) == "accepted");
}

TEST_CASE("fields of OpenAI's that are not done are refused when they ask for something") {
  for (const char* member : {R"("suffix":"x")", R"("tools":[{}])", R"("tool_choice":"auto")",
                             R"("functions":[{}])", R"("audio":{"voice":"x"})"}) {
    CAPTURE(member);
    const std::string text = member;
    const std::string field = text.substr(1, text.find('"', 1) - 1);
    CHECK(refusal_of_completion(completion_body(member)) == "400 unsupported_parameter " + field);
  }
}

TEST_CASE("unknown fields are counted and ignored") {
  const CompletionRequest request = parse_members(R"("foo":1,"bar":{"n":[null]},"Model":"x","":0)");
  CHECK(request.unknown_fields == 4);
  CHECK(request.model.empty());
}

TEST_CASE("the model is required where several are served") {
  RequestLimits limits = small_limits();
  limits.model_required = true;
  CHECK(refusal_of_completion(R"({"prompt":"x"})", limits) == "400 missing_required_parameter model");
  CHECK(parse(R"({"prompt":"x","model":"m"})", limits).model == "m");
}

TEST_CASE("constraints are refused where they are not built in") {
  for (const char* member :
       {R"("grammar":"root ::= \"a\"")", R"("regex":"a+")", R"("response_format":{"type":"json_object"})"}) {
    CAPTURE(member);
    const std::string text = member;
    const std::string field = text.substr(1, text.find('"', 1) - 1);
    CHECK(refusal_of_completion(completion_body(member)) == "400 unsupported_parameter " + field);
    CHECK(refusal_of_completion(completion_body(member), constrained_limits()) == "accepted");
  }
}

TEST_CASE("grammar, regex and response_format exclude each other") {
  const auto refusal = [](const char* members) {
    return refusal_of_completion(completion_body(members), constrained_limits());
  };
  CHECK(refusal(R"("grammar":"a","regex":"a")") == "400 invalid_value regex");
  CHECK(refusal(R"("grammar":"a","response_format":{"type":"json_object"})") ==
        "400 invalid_value response_format");
  CHECK(refusal(R"("regex":"a","response_format":{"type":"json_object"})") ==
        "400 invalid_value response_format");
  CHECK(refusal(R"("regex":"a","response_format":{"type":"text"})") == "accepted");
  CHECK(refusal(R"("regex":"")") == "400 invalid_value regex");
}

TEST_CASE("a grammar may have 64 KiB and not more") {
  const auto body = [](std::size_t bytes) {
    return completion_body(R"("grammar":")" + std::string(bytes, 'a') + '"');
  };
  CHECK(refusal_of_completion(body(65536), constrained_limits()) == "accepted");
  CHECK(refusal_of_completion(body(65537), constrained_limits()) == "400 invalid_value grammar");
}

TEST_CASE("a JSON schema is kept as text, its members in their order") {
  const CompletionRequest request = parse_members(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,
         "schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}}}})",
      constrained_limits());
  CHECK(request.response_format.type == ResponseFormat::Type::json_schema);
  CHECK(request.response_format.schema_name == "s");
  CHECK(request.response_format.strict);
  CHECK(request.response_format.schema ==
        R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}})");
}

TEST_CASE("a response_format that misses a part is refused by the part's path") {
  const auto refusal = [](const char* format) {
    return refusal_of_completion(completion_body(R"("response_format":)" + std::string(format)),
                                 constrained_limits());
  };
  CHECK(refusal("{}") == "400 missing_required_parameter response_format.type");
  CHECK(refusal(R"({"type":"json_schema"})") == "400 missing_required_parameter response_format.json_schema");
  CHECK(refusal(R"({"type":"json_schema","json_schema":{"schema":5}})") ==
        "400 invalid_type response_format.json_schema.schema");
  CHECK(refusal(R"({"type":"json_schema","json_schema":{"strict":1}})") ==
        "400 invalid_type response_format.json_schema.strict");
}

TEST_CASE("a schema nested 50 deep is accepted and one nested 5000 deep is not") {
  const auto body = [](int depth) {
    std::string schema = "{}";
    for (int i = 0; i < depth; ++i) schema = R"({"items":)" + schema + "}";
    return completion_body(R"("response_format":{"type":"json_schema","json_schema":{"name":"s","schema":)" +
                           schema + "}}");
  };
  CHECK(refusal_of_completion(body(50), constrained_limits()) == "accepted");
  CHECK(refusal_of_completion(body(5000), constrained_limits()) == "400 json_too_deep");
}

TEST_CASE("echo with logprobs and filters is a valid request") {
  const CompletionRequest request = parse_members(R"("echo":true,"logprobs":1,"top_k":1,"temperature":1)");
  CHECK(request.echo);
  CHECK(request.logprobs == 1);
  CHECK(request.top_k == 1);
}

TEST_CASE("a request timeout header is a plain number of seconds within its range") {
  CHECK(parse_timeout_header("2.5") == 2.5);
  CHECK(parse_timeout_header("1e2") == 100);
  for (const char* value :
       {"abc", "-5", "1e999", "", "nan", "inf", "5s", " 5", "0", "0.05", "86401", "0x10", "+5"}) {
    CAPTURE(value);
    CHECK(refusal_of([&] { parse_timeout_header(value); }) == "400 invalid_value X-Request-Timeout");
  }
}

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "api/health.h"
#include "api/models.h"
#include "api/sse.h"
#include "api/tokenize.h"
#include "tests/api/refusal.h"

using namespace grokd::api;
using namespace grokd::api::test;

namespace {

TokenizeRequest parse_tokenize(std::string_view body) { return parse_tokenize_request(body, small_limits()); }
std::string refusal_of_tokenize(std::string_view body) {
  return refusal_of([&] { parse_tokenize(body); });
}
std::string refusal_of_detokenize(std::string_view body) {
  return refusal_of([&] { parse_detokenize_request(body, small_limits()); });
}

}  // namespace

TEST_CASE("a model card and the list of them") {
  const ModelCard card{
      .id = "grok-1", .created = 5, .max_model_len = 8192, .root = {}, .chat_template = "plain"};
  const std::string json =
      R"({"id":"grok-1","object":"model","created":5,"owned_by":"grokd","max_model_len":8192,"root":null,"chat_template":"plain"})";
  CHECK(to_json(card) == json);
  const ModelCard rooted{.id = "a", .created = 5, .max_model_len = 1, .root = "/m", .chat_template = "x"};
  CHECK(to_json(rooted).find(R"("root":"/m")") != std::string::npos);
  CHECK(to_json(std::vector{card, card}) == R"({"object":"list","data":[)" + json + "," + json + "]}");
  CHECK(to_json(std::vector<ModelCard>{}) == R"({"object":"list","data":[]})");
}

TEST_CASE("tokenize takes a prompt or messages") {
  const TokenizeRequest text =
      parse_tokenize(R"({"model":"m","prompt":"a","add_special_tokens":false,"return_token_strs":true})");
  CHECK(text.model == "m");
  CHECK(std::get<std::string>(text.input) == "a");
  CHECK(text.add_special_tokens == false);
  CHECK(text.return_token_strs);
  const TokenizeRequest chat =
      parse_tokenize(R"({"messages":[{"role":"user","content":"a"}],"prompt":null})");
  CHECK(std::get<std::vector<ChatMessage>>(chat.input).size() == 1);
  CHECK(chat.add_generation_prompt);
  CHECK_FALSE(chat.add_special_tokens.has_value());
  CHECK(std::get<std::string>(parse_tokenize(R"({"prompt":""})").input).empty());
}

TEST_CASE("tokenize refuses what is neither a prompt nor messages") {
  CHECK(refusal_of_tokenize("{}") == "400 missing_required_parameter prompt");
  CHECK(refusal_of_tokenize(R"({"prompt":5})") == "400 invalid_type prompt");
  CHECK(refusal_of_tokenize(R"({"messages":[]})") == "400 invalid_value messages");
  CHECK(refusal_of_tokenize(R"({"prompt":"a","messages":[{"role":"user","content":"a"}]})") ==
        "400 invalid_value messages");
  CHECK(refusal_of_tokenize(R"({"prompt":"a","return_token_strs":1})") ==
        "400 invalid_type return_token_strs");
}

TEST_CASE("detokenize takes any id of the vocabulary") {
  CHECK(parse_detokenize_request(R"({"tokens":[0,5,99]})", small_limits()).tokens ==
        std::vector<TokenId>{0, 5, 99});
  CHECK(parse_detokenize_request(R"({"tokens":[]})", small_limits()).tokens.empty());
  CHECK(refusal_of_detokenize("{}") == "400 missing_required_parameter tokens");
  CHECK(refusal_of_detokenize(R"({"tokens":[100]})") == "400 invalid_token tokens");
  CHECK(refusal_of_detokenize(R"({"tokens":[-1]})") == "400 invalid_token tokens");
  CHECK(refusal_of_detokenize(R"({"tokens":["a"]})") == "400 invalid_type tokens");
  CHECK(refusal_of_detokenize(R"({"tokens":"a"})") == "400 invalid_type tokens");
}

TEST_CASE("tokenize and detokenize answers") {
  CHECK(to_json(TokenizeResponse{.tokens = {5, 6}, .max_model_len = 64, .token_strs = {}}) ==
        R"({"tokens":[5,6],"count":2,"max_model_len":64,"token_strs":null})");
  CHECK(to_json(TokenizeResponse{.tokens = {5, 6},
                                 .max_model_len = 64,
                                 .token_strs = {{"\xE2\x96\x81"
                                                 "a",
                                                 "\""}}}) ==
        "{\"tokens\":[5,6],\"count\":2,\"max_model_len\":64,\"token_strs\":[\"\xE2\x96\x81"
        "a\",\"\\\"\"]}");
  CHECK(to_json(TokenizeResponse{.tokens = {}, .max_model_len = 64, .token_strs = {{}}}) ==
        R"({"tokens":[],"count":0,"max_model_len":64,"token_strs":[]})");
  CHECK(to_json(DetokenizeResponse{.prompt = "a\n"}) == R"({"prompt":"a\n"})");
}

TEST_CASE("readiness, liveness and load bodies") {
  CHECK(to_json(Readiness{.status = ReadyStatus::loading, .progress = 0.25, .running = 0, .waiting = 0}) ==
        R"({"status":"loading","progress":0.25,"running":0,"waiting":0})");
  CHECK(to_json(Readiness{.status = ReadyStatus::draining, .progress = 7, .running = 2, .waiting = 3}) ==
        R"({"status":"draining","progress":1,"running":2,"waiting":3})");
  CHECK(to_json(Readiness{.status = ReadyStatus::ready}).find(R"("status":"ready")") != std::string::npos);
  CHECK(to_json(Readiness{.status = ReadyStatus::stalled}).find(R"("status":"stalled")") !=
        std::string::npos);
  CHECK(liveness_json(true) == R"({"status":"alive"})");
  CHECK(liveness_json(false) == R"({"status":"stalled"})");
  CHECK(to_json(
            Load{.running = 1, .waiting = 2, .waiting_tokens = 3, .slots = 4, .kv_used = 5, .kv_total = 6}) ==
        R"({"running":1,"waiting":2,"waiting_tokens":3,"slots":4,"kv_used":5,"kv_total":6})");
}

TEST_CASE("frames of a stream") {
  std::string out;
  append_sse_event(out, to_json(errors::shutting_down(1)));
  CHECK(out.starts_with(R"(data: {"error":{"message":)"));
  CHECK(out.ends_with("}\n\n"));
  out.clear();
  append_sse_progress(out, 256, 6000);
  CHECK(out == ": progress 256/6000\n\n");
  CHECK(kSseDone == "data: [DONE]\n\n");
  CHECK(kSsePing == ": ping\n\n");
}

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/completion.h"

using namespace grokd::api;

namespace {

ResponseHead head() { return {"cmpl-1", 1790000000, "grok-1", "grokd-1-ab-cpu", std::nullopt, std::nullopt}; }

const std::string kHead =
    R"({"id":"cmpl-1","object":"text_completion","created":1790000000,"model":"grok-1","system_fingerprint":"grokd-1-ab-cpu",)";

std::string event(const std::string& rest) { return "data: " + kHead + rest + "\n\n"; }

}  // namespace

TEST_CASE("a plain answer is written as in the contract") {
  CompletionResponse response{.head = head(), .choices = {}, .usage = {11, 16, 3}};
  response.choices.push_back({.index = 0,
                              .text = " of course 42",
                              .logprobs = {},
                              .finish_reason = FinishReason::length,
                              .stop_reason = {}});
  CHECK(
      to_json(response) ==
      kHead +
          R"("choices":[{"index":0,"text":" of course 42","logprobs":null,"finish_reason":"length","stop_reason":null}],)"
          R"("usage":{"prompt_tokens":11,"completion_tokens":16,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":3}}})");
}

TEST_CASE("stop_reason is the stop string, the stop id or null") {
  CompletionResponse response{.head = head(), .choices = {}, .usage = {}};
  for (const StopReason& stop : std::vector<StopReason>{std::string("\n"), 7, std::monostate{}}) {
    response.choices.push_back(
        {.index = static_cast<int>(response.choices.size()), .text = "", .stop_reason = stop});
  }
  const auto choices = nlohmann::json::parse(to_json(response))["choices"];
  CHECK(choices[0]["stop_reason"] == "\n");
  CHECK(choices[1]["stop_reason"] == 7);
  CHECK(choices[2]["stop_reason"].is_null());
  CHECK(choices[2]["index"] == 2);
  CHECK(choices[2]["finish_reason"] == "stop");
}

TEST_CASE("ids of tokens, the tier and the seed are written when there are any") {
  CompletionResponse response{.head = head(), .choices = {}, .usage = {}};
  response.head.service_tier = ServiceTier::standard;
  response.head.seed_used = -5;
  response.choices.push_back({.index = 0, .text = "a", .token_ids = {{5, 2}}, .prompt_token_ids = {{7}}});
  const auto json = nlohmann::json::parse(to_json(response));
  CHECK(json["service_tier"] == "default");
  CHECK(json["seed_used"] == -5);
  CHECK(json["choices"][0]["token_ids"] == std::vector<int>{5, 2});
  CHECK(json["choices"][0]["prompt_token_ids"] == std::vector<int>{7});
}

TEST_CASE("text of any bytes gives valid JSON") {
  CompletionResponse response{.head = head(), .choices = {}, .usage = {}};
  response.choices.push_back({.index = 0, .text = std::string("\xFF\0\"\n", 4)});
  CHECK(nlohmann::json::parse(to_json(response))["choices"][0]["text"] ==
        std::string("\xEF\xBF\xBD\0\"\n", 6));
}

TEST_CASE("stream events without usage have no usage key") {
  const CompletionChunkWriter writer(head(), false);
  std::string out;
  writer.append_text(out, {.index = 1, .text = " of"});
  CHECK(out == event(R"("choices":[{"index":1,"text":" of","logprobs":null,"finish_reason":null}]})"));
  out.clear();
  writer.append_finish(out, {.index = 0, .text = ""}, FinishReason::stop, {});
  CHECK(
      out ==
      event(
          R"("choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":null}]})"));
}

TEST_CASE("with include_usage every event has usage null but the last, which has no choice") {
  const CompletionChunkWriter writer(head(), true);
  std::string out;
  writer.append_text(out, {.index = 0, .text = "a"});
  CHECK(out ==
        event(R"("choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}],"usage":null})"));
  out.clear();
  writer.append_finish(out, {.index = 0, .text = ""}, FinishReason::length, std::string("timeout"));
  CHECK(out == event(R"("choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length",)"
                     R"("stop_reason":"timeout"}],"usage":null})"));
  out.clear();
  writer.append_usage(out, {11, 16, 0});
  CHECK(out == event(R"("choices":[],"usage":{"prompt_tokens":11,"completion_tokens":16,"total_tokens":27,)"
                     R"("prompt_tokens_details":{"cached_tokens":0}}})"));
}

TEST_CASE("an event carries its tokens' log-probabilities and ids") {
  const CompletionChunkWriter writer(head(), false);
  const std::vector<TokenLogprob> logprobs = {
      {.bytes = " of", .logprob = -0.5f, .top = {{" of", -0.5f}, {" in", -1.25f}}, .text_offset = 4}};
  const std::vector<TokenId> ids = {17}, prompt_ids = {3, 4};
  std::string out;
  writer.append_text(
      out,
      {.index = 0, .text = " of", .logprobs = &logprobs, .token_ids = &ids, .prompt_token_ids = &prompt_ids});
  CHECK(out ==
        event(R"("choices":[{"index":0,"text":" of","logprobs":{"tokens":[" of"],"token_logprobs":[-0.5],)"
              R"("top_logprobs":[{" of":-0.5," in":-1.25}],"text_offset":[4]},"finish_reason":null,)"
              R"("token_ids":[17],"prompt_token_ids":[3,4]}]})"));
}

TEST_CASE("an event is one line however the text is") {
  const CompletionChunkWriter writer(head(), false);
  std::string out;
  writer.append_text(out, {.index = 0, .text = "a\n\ndata: b\r\n"});
  CHECK(out.find('\n') == out.size() - 2);
  CHECK(out.find('\r') == std::string::npos);
}

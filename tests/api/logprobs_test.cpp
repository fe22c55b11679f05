#include "api/logprobs.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace grokd::api;

namespace {

std::string completion_json(const std::vector<TokenLogprob>& tokens) {
  std::string out;
  append_completion_logprobs(out, tokens);
  return out;
}

std::string chat_json(const std::vector<TokenLogprob>& tokens) {
  std::string out;
  append_chat_logprobs(out, tokens);
  return out;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("a token that is not UTF-8 alone is written by its bytes") {
  CHECK(completion_token_text(" of") == " of");
  CHECK(completion_token_text("\xF0\x9F") == R"(bytes:\xF0\x9F)");
  CHECK(completion_token_text("a\x80") == R"(bytes:\x61\x80)");
  CHECK(completion_token_text("") == "");
}

TEST_CASE("the first prompt token has no log-probability and no alternatives") {
  CHECK(
      completion_json({{.bytes = "Hi", .logprob = {}, .top = {}, .text_offset = 0},
                       {.bytes = "!", .logprob = -1.5f, .top = {{"!", -1.5f}}, .text_offset = 2}}) ==
      R"({"tokens":["Hi","!"],"token_logprobs":[null,-1.5],"top_logprobs":[null,{"!":-1.5}],"text_offset":[0,2]})");
}

TEST_CASE("the sampled token joins the best ones if it is not among them") {
  CHECK(
      completion_json(
          {{.bytes = "z", .logprob = -9.0f, .top = {{"a", -0.5f}, {"b", -1.0f}}, .text_offset = 0}}) ==
      R"({"tokens":["z"],"token_logprobs":[-9.0],"top_logprobs":[{"a":-0.5,"b":-1.0,"z":-9.0}],"text_offset":[0]})");
  CHECK(completion_json({{.bytes = "z", .logprob = -9.0f, .top = {}, .text_offset = 0}}) ==
        R"({"tokens":["z"],"token_logprobs":[-9.0],"top_logprobs":[{"z":-9.0}],"text_offset":[0]})");
}

TEST_CASE("alternatives of one text are one key, the best of them") {
  const auto json = completion_json({{.bytes = "A",
                                      .logprob = -0.5f,
                                      .top = {{"A", -0.5f}, {"A", -3.0f}, {"\xFF", -4.0f}},
                                      .text_offset = 0}});
  CHECK(json.find(R"("top_logprobs":[{"A":-0.5,"bytes:\\xFF":-4.0}])") != std::string::npos);
}

TEST_CASE("minus infinity is written as -9999.0 in both forms") {
  const std::vector<TokenLogprob> tokens = {
      {.bytes = "a", .logprob = -kInfinity, .top = {{"b", -kInfinity}}, .text_offset = 0}};
  CHECK(
      completion_json(tokens) ==
      R"({"tokens":["a"],"token_logprobs":[-9999.0],"top_logprobs":[{"b":-9999.0,"a":-9999.0}],"text_offset":[0]})");
  CHECK(nlohmann::json::parse(chat_json(tokens))["content"][0]["logprob"] == -9999.0);
}

TEST_CASE("chat log-probabilities have token, bytes and alternatives") {
  CHECK(chat_json({{.bytes = "Hi", .logprob = -0.25f, .top = {{"Hi", -0.25f}, {"\xC3", -2.0f}}}}) ==
        R"({"content":[{"token":"Hi","logprob":-0.25,"bytes":[72,105],"top_logprobs":[)"
        R"({"token":"Hi","logprob":-0.25,"bytes":[72,105]},)"
        "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-2.0,\"bytes\":[195]}]}],\"refusal\":null}");
  CHECK(chat_json({}) == R"({"content":[],"refusal":null})");
}

TEST_CASE("the four byte tokens of an emoji keep their bytes and show U+FFFD") {
  std::vector<TokenLogprob> tokens;
  for (const char* byte : {"\xF0", "\x9F", "\x98", "\x80"})
    tokens.push_back({.bytes = byte, .logprob = -1.0f});
  const auto content = nlohmann::json::parse(chat_json(tokens))["content"];
  const std::vector<int> bytes = {240, 159, 152, 128};
  REQUIRE(content.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(content[i]["bytes"] == std::vector<int>{bytes[i]});
    CHECK(content[i]["token"] == "\xEF\xBF\xBD");
    CHECK(content[i]["top_logprobs"].empty());
  }
}

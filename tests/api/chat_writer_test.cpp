#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "api/chat.h"

using namespace grokd::api;

namespace {

ResponseHead head() { return {"chatcmpl-1", 1790000000, "grok-1", "fp", std::nullopt, std::nullopt}; }

std::string head_json(const std::string& object) {
  return R"({"id":"chatcmpl-1","object":")" + object +
         R"(","created":1790000000,"model":"grok-1","system_fingerprint":"fp",)";
}

std::string event(const std::string& rest) {
  return "data: " + head_json("chat.completion.chunk") + rest + "\n\n";
}

}  // namespace

TEST_CASE("a plain chat answer is written as in the contract") {
  ChatResponse response{.head = head(), .choices = {}, .usage = {5, 2, 0}};
  response.choices.push_back({.index = 0, .content = "Hello."});
  CHECK(to_json(response) ==
        head_json("chat.completion") +
            R"("choices":[{"index":0,"message":{"role":"assistant","content":"Hello.","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop","stop_reason":null}],)"
            R"("usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST_CASE("a chat stream's events are role, text, finish and usage") {
  const ChatChunkWriter writer(head(), true);
  std::string out;
  writer.append_role(out, {.index = 1});
  CHECK(out == event(R"("choices":[{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                     R"("finish_reason":null}],"usage":null})"));
  out.clear();
  writer.append_text(out, {.index = 1, .content = "Hello"});
  CHECK(out == event(R"("choices":[{"index":1,"delta":{"content":"Hello"},"logprobs":null,)"
                     R"("finish_reason":null}],"usage":null})"));
  out.clear();
  writer.append_finish(out, {.index = 1}, FinishReason::stop, 7);
  CHECK(out == event(R"("choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop",)"
                     R"("stop_reason":7}],"usage":null})"));
  out.clear();
  writer.append_usage(out, {5, 2, 1});
  CHECK(out == event(R"("choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
                     R"("prompt_tokens_details":{"cached_tokens":1}}})"));
}

TEST_CASE("a chat event carries log-probabilities, and the last may carry text") {
  const ChatChunkWriter writer(head(), false);
  const std::vector<TokenLogprob> logprobs = {{.bytes = "!", .logprob = -0.5f}};
  const std::vector<TokenId> ids = {9};
  std::string out;
  writer.append_finish(out, {.index = 0, .content = "!", .logprobs = &logprobs, .token_ids = &ids},
                       FinishReason::length, {});
  CHECK(out == event(R"("choices":[{"index":0,"delta":{"content":"!"},"logprobs":{"content":[)"
                     R"({"token":"!","logprob":-0.5,"bytes":[33],"top_logprobs":[]}],"refusal":null},)"
                     R"("finish_reason":"length","stop_reason":null,"token_ids":[9]}]})"));
}

TEST_CASE("one leading space is taken off the content and off the first token that has bytes") {
  LeadingSpace space;
  std::string text = "  Hello";
  std::vector<TokenLogprob> tokens = {{.bytes = ""}, {.bytes = "  Hel"}, {.bytes = " lo"}};
  space.remove(text, &tokens);
  CHECK(text == " Hello");
  CHECK(tokens[1].bytes == " Hel");
  CHECK(tokens[2].bytes == " lo");
  text = " there";
  tokens = {{.bytes = " there"}};
  space.remove(text, &tokens);
  CHECK(text == " there");
  CHECK(tokens[0].bytes == " there");
}

TEST_CASE("a leading space that comes after an empty piece is still taken off, and only a space") {
  LeadingSpace space;
  std::string text;
  space.remove(text, nullptr);
  text = " a";
  space.remove(text, nullptr);
  CHECK(text == "a");
  LeadingSpace other;
  text = "\n a";
  other.remove(text, nullptr);
  CHECK(text == "\n a");
  text = " b";
  other.remove(text, nullptr);
  CHECK(text == " b");
}

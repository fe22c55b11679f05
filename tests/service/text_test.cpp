// What of the model's bytes a client sees, and when: characters, stop strings, log-probabilities.
#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

/// Each answer is these tokens, whatever was asked.
ServerSetup saying(std::vector<std::string> tokens) {
  ServerSetup setup;
  setup.pieces = std::move(tokens);
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < setup.pieces.size(); ++i)
    ids.push_back(FakeTokenizer::kFirstPiece + static_cast<TokenId>(i));
  setup.script = answer_with(ids);
  return setup;
}

ServerSetup saying_bytes(std::string_view text) {
  return {.script = answer_with(FakeTokenizer::bytes_of(text))};
}

/// The first choice of each event of a stream, in order.
std::vector<json> streamed(TestServer& server, const std::string& fields) {
  const Reply reply = post(server.port(), "/v1/completions",
                           R"({"prompt":"Hi","max_tokens":50,"stream":true,)" + fields + "}");
  REQUIRE(reply.status == 200);
  std::vector<std::string> events = reply.events();
  REQUIRE(!events.empty());
  CHECK(events.back() == "[DONE]");
  events.pop_back();
  std::vector<json> choices;
  for (const std::string& event : events) choices.push_back(json::parse(event)["choices"][0]);
  return choices;
}

std::string joined(const std::vector<json>& choices) {
  std::string text;
  for (const json& choice : choices) text += choice["text"].get<std::string>();
  return text;
}

json plain(TestServer& server, const std::string& fields) {
  const Reply reply =
      post(server.port(), "/v1/completions", R"({"prompt":"Hi","max_tokens":50,)" + fields + "}");
  REQUIRE(reply.status == 200);
  return json::parse(reply.body)["choices"][0];
}

constexpr const char* kNothingMore = R"("seed":1)";

}  // namespace

TEST_CASE("a character made of several tokens comes in one event") {
  TestServer server(saying_bytes("😀!"));
  const auto events = streamed(server, kNothingMore);
  CHECK(events[0]["text"].get<std::string>().starts_with("😀"));
  CHECK(joined(events) == "😀!");
  CHECK(plain(server, kNothingMore)["text"] == "😀!");
}

TEST_CASE("bytes that are no character are replaced at once, an unfinished one at the end") {
  TestServer invalid(
      saying_bytes("\xFF"
                   "a"));
  CHECK(joined(streamed(invalid, kNothingMore)) == "\uFFFDa");
  TestServer unfinished(saying_bytes("\xF0\x9F"));
  const auto events = streamed(unfinished, kNothingMore);
  CHECK(joined(events) == "\uFFFD");
  CHECK(events.back()["finish_reason"] == "stop");
  CHECK(plain(unfinished, kNothingMore)["text"] == "\uFFFD");
}

TEST_CASE("spaces at the beginning of tokens are kept") {
  TestServer server(saying({" world", " foo"}));
  CHECK(joined(streamed(server, kNothingMore)) == " world foo");
}

TEST_CASE("chat log-probabilities have a character's bytes one token at a time") {
  TestServer server(saying_bytes("😀"));
  const std::string body =
      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":9,"logprobs":true,"top_logprobs":1})";
  const json choice = json::parse(post(server.port(), "/v1/chat/completions", body).body)["choices"][0];
  CHECK(choice["message"]["content"] == "😀");
  const json& entries = choice["logprobs"]["content"];
  REQUIRE(entries.size() == 4);
  const int bytes[] = {240, 159, 152, 128};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(entries[i]["bytes"] == json::array({bytes[i]}));
    CHECK(entries[i]["token"] == "\uFFFD");
  }
}

TEST_CASE("a stop string's beginning is never sent, text before it in the same token is") {
  TestServer spread(saying({"ABC", "DEF", "G", "HI", "J", "more"}));
  const auto events = streamed(spread, R"("stop":["DEFGHIJ"])");
  CHECK(joined(events) == "ABC");
  CHECK(events.back()["finish_reason"] == "stop");
  CHECK(events.back()["stop_reason"] == "DEFGHIJ");
  TestServer within(saying({"?\n", "more"}));
  CHECK(joined(streamed(within, R"("stop":["\n"])")) == "?");
}

TEST_CASE("text held back for a stop string comes with its own tokens at rising offsets") {
  TestServer server(saying({"a", ",b", ",d"}));
  std::string text, tokens;
  std::int64_t last_offset = -1;
  for (const json& choice : streamed(server, R"("stop":["b,c"],"logprobs":1)")) {
    text += choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const json& token : choice["logprobs"]["tokens"]) tokens += token.get<std::string>();
    for (const json& offset : choice["logprobs"]["text_offset"]) {
      CHECK(offset.get<std::int64_t>() > last_offset);
      last_offset = offset.get<std::int64_t>();
    }
    CHECK(tokens.size() <= text.size());  // no event has tokens whose text is still to come
  }
  CHECK(text == "a,b,d");
  CHECK(tokens == text);
  CHECK(last_offset == 3);
}

TEST_CASE("no event but the last has empty text, with a stop string set or not") {
  TestServer server(saying({"a", "zz", "z", "b"}));
  for (const char* fields : {R"("stop":["zzzz"])", kNothingMore}) {
    auto events = streamed(server, fields);
    CHECK(joined(events) == "azzzb");
    events.pop_back();
    for (const json& choice : events) CHECK(choice["text"] != "");
  }
}

TEST_CASE("a token is with the client before the next one is made") {
  std::atomic<int> allowed = 1, steps = 0;
  ServerSetup setup = saying({"one", "two"});
  setup.before_step = [&](const Batch&) {
    ++steps;
    while (steps > allowed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  TestServer server(setup);
  HttpClient client(server.port());
  client.send(request_text("POST", "/v1/completions", R"({"prompt":"Hi","stream":true})"));
  CHECK(client.wait_for("\"one\""));
  CHECK(client.received().find("\"two\"") == std::string::npos);
  allowed = 1000;
  CHECK(client.wait_for("[DONE]"));
}

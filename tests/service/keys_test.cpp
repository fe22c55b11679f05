// Keys: which file lines make them, what each may use, and what happens when the file is read again.
#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "api/error.h"
#include "service/key_store.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr const char* kShort = R"({"prompt":"Hi","max_tokens":2})";

std::string code_of(const Reply& reply) { return json::parse(reply.body)["error"]["code"]; }

Reply complete_with(TestServer& server, const std::string& key, std::string_view body = kShort) {
  return post(server.port(), "/v1/completions", body, "Authorization: Bearer " + key + "\r\n");
}

}  // namespace

TEST_CASE("a key file gives one key a line, with its limits") {
  TempFolder folder;
  const std::string file = folder / "keys";
  write_file(file,
             "# team\nfirst\n\n  second max-requests=2 \r\nthird tokens-per-minute=600 max-requests=0\n");
  const auto keys = read_api_keys(file);
  REQUIRE(keys.size() == 3);
  CHECK(keys[0].key == "first");
  CHECK(!keys[0].max_requests);
  CHECK(keys[1].key == "second");
  CHECK(keys[1].max_requests == 2);
  CHECK(keys[2].tokens_per_minute == 600);
  CHECK(keys[2].max_requests == 0);
}

TEST_CASE("a key file that is not understood is refused, naming file and line") {
  TempFolder folder;
  const std::string file = folder / "keys";
  CHECK(message_of<ConfigError>([&] { read_api_keys(file); }).find(file) != std::string::npos);
  for (const char* text :
       {"a\nb max-requests=-1\n", "a\nb max-requests=x\n", "a\nb max-requests=\n", "a\nb c\n"}) {
    CAPTURE(text);
    write_file(file, text);
    CHECK(message_of<ConfigError>([&] { read_api_keys(file); }).find("line 2 of the key file " + file) !=
          std::string::npos);
  }
  write_file(file, "# nobody\n");
  CHECK_THROWS_AS(read_api_keys(file), ConfigError);
}

TEST_CASE("a key's tokens come back at their rate, and what was taken beyond them is waited for") {
  const KeyAccount::Time start{1h};
  KeyAccount account({"key"}, {0, 600});  // ten a second
  account.begin(start);
  account.charge(650, start);
  const auto retry_after = [&](KeyAccount::Time now) {
    try {
      account.begin(now);
    } catch (const api::ApiError& error) {
      CHECK(error.code == "rate_limit_exceeded");
      CHECK(error.status == 429);
      return error.retry_after_seconds.value_or(-1);
    }
    return 0;
  };
  CHECK(retry_after(start) == 6);  // fifty-one are missing
  CHECK(retry_after(start + 2s) == 4);
  CHECK(retry_after(start + 6s) == 0);
  account.charge(5'000, start + 6s);
  CHECK(retry_after(start + 6s) == 120);
  CHECK(retry_after(start + 2h) == 0);  // no more than a minute's worth is saved up
  account.charge(600, start + 2h);
  CHECK(retry_after(start + 2h) == 1);
}

TEST_CASE("a key has no more requests in work than it may, others are not held up") {
  std::atomic<bool> hold = true;
  ServerSetup setup;
  setup.before_step = [&hold](const Batch&) {
    while (hold) std::this_thread::sleep_for(1ms);
  };
  setup.config.api_keys = {ApiKey{"narrow", 2, {}}, ApiKey{"wide"}};
  TestServer server(setup);
  const auto start = [&](const std::string& key) {
    HttpClient client(server.port());
    client.send(request_text("POST", "/v1/completions", kShort, "X-Api-Key: " + key + "\r\n"));
    return client;
  };
  std::vector<HttpClient> clients;
  for (const char* key : {"narrow", "narrow", "wide", "wide", "wide"}) clients.push_back(start(key));
  CHECK(TestServer::eventually([&] { return server.stats().running + server.stats().waiting == 5; }));
  const Reply refused = complete_with(server, "narrow");
  CHECK(refused.status == 429);
  CHECK(code_of(refused) == "rate_limit_exceeded");
  CHECK(refused.header("retry-after") == "1");
  hold = false;
  for (HttpClient& client : clients) CHECK(client.read_reply().status == 200);
  CHECK(complete_with(server, "narrow").status == 200);
}

TEST_CASE("tokens of prompts and answers count, also of answers nobody waited for") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"key"}, ApiKey{"other"}};
  setup.config.key_limits.tokens_per_minute = 40;
  setup.before_step = pause_each_step(2);
  TestServer server(setup);
  SUBCASE("whole") {
    CHECK(complete_with(server, "key", R"({"prompt":"Hi","max_tokens":45,"ignore_eos":true})").status == 200);
  }
  SUBCASE("left") {
    HttpClient client(server.port());
    client.send(request_text("POST", "/v1/completions",
                             R"({"prompt":"Hi","max_tokens":900,"ignore_eos":true,"stream":true})",
                             "X-Api-Key: key\r\n"));
    CHECK(TestServer::eventually([&] { return server.stats().generated_tokens > 60; }));
    client.reset();
    CHECK(server.becomes_idle());
  }
  const Reply refused = complete_with(server, "key");
  CHECK(refused.status == 429);
  CHECK(code_of(refused) == "rate_limit_exceeded");
  CHECK(std::stoi(refused.header("retry-after")) >= 1);
  CHECK(complete_with(server, "other").status == 200);
}

TEST_CASE("keys read again take effect at once, and a bad file leaves the old ones") {
  TempFolder folder;
  const std::string file = folder / "keys";
  write_file(file, "old\nboth tokens-per-minute=10\n");
  ServerSetup setup;
  setup.config.api_key_file = file;
  setup.config.api_keys = read_api_keys(file);
  TestServer server(setup);
  CHECK(complete_with(server, "both", R"({"prompt":"a text of some letters","max_tokens":1})").status == 200);
  CHECK(complete_with(server, "both").status == 429);
  write_file(file, "new\nboth tokens-per-minute=10\n");
  server.server().reload_on_hangup();
  std::raise(SIGHUP);
  CHECK(TestServer::eventually([&] { return complete_with(server, "old").status == 401; }));
  CHECK(complete_with(server, "new").status == 200);
  CHECK(complete_with(server, "both").status == 429);  // what was used stays used
  write_file(file, "new nonsense\n");
  server.server().reload();
  CHECK(complete_with(server, "new").status == 200);
  write_file(file, "both\n");
  server.server().reload();
  CHECK(complete_with(server, "new").status == 401);
  CHECK(complete_with(server, "both").status == 200);  // its limit is gone
}

TEST_CASE("without a key or with a wrong one every route answers as the contract says") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"secret"}};
  setup.config.load_without_key = true;
  TestServer server(setup);
  const char* open[] = {
      "/", "/livez", "/readyz", "/health", "/v2/health/live", "/v2/health/ready", "/openapi.yaml", "/load"};
  const char* closed_get[] = {"/v1/models", "/v1/models/fake", "/metrics"};
  const char* closed_post[] = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};
  for (const char* headers : {"", "Authorization: Bearer wrong\r\n", "X-Api-Key: secre\r\n"}) {
    for (const char* path : open) CHECK_MESSAGE(get(server.port(), path, headers).status == 200, path);
    for (const char* path : closed_get) CHECK_MESSAGE(get(server.port(), path, headers).status == 401, path);
    for (const char* path : closed_post)
      CHECK_MESSAGE(post(server.port(), path, "{}", headers).status == 401, path);
  }
}

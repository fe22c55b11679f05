// What happens when clients leave, read slowly, come in crowds, and when the server starts and ends.
#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

constexpr const char* kLongStream =
    R"({"prompt":"Hi","max_tokens":900,"ignore_eos":true,"seed":1,"stream":true})";
constexpr const char* kLongPlain = R"({"prompt":"Hi","max_tokens":900,"ignore_eos":true,"seed":1})";
constexpr const char* kShort = R"({"prompt":"Hi","max_tokens":2})";
constexpr const char* kAborted = "grokd_request_finished_total{model=\"fake\",reason=\"abort\"}";

std::string code_of(const Reply& reply) { return json::parse(reply.body)["error"]["code"]; }

HttpClient start(TestServer& server, const char* body) {
  HttpClient client(server.port());
  client.send(request_text("POST", "/v1/completions", body));
  return client;
}

}  // namespace

TEST_CASE("a client that closes in the middle of a stream frees its slot") {
  TestServer server({.before_step = pause_each_step(5)});
  HttpClient client = start(server, kLongStream);
  REQUIRE(client.wait_for("data: "));
  client.close();
  CHECK(server.becomes_idle(2'000));
  CHECK(TestServer::eventually([&] { return server.metric(kAborted) == 1; }));
}

TEST_CASE("a client that resets in the middle of a stream frees its slot at once, many times over") {
  TestServer server({.before_step = pause_each_step(1)});
  for (int i = 0; i < 50; ++i) {
    HttpClient client = start(server, kLongStream);
    REQUIRE(client.wait_for("\r\n\r\n"));
    client.reset();
  }
  CHECK(server.becomes_idle(2'000));
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
}

TEST_CASE("a client that leaves while it waits for a plain answer frees its slot") {
  ServerSetup setup{.before_step = pause_each_step(5)};
  setup.config.http.plain_close_grace = Milliseconds(50);
  TestServer server(setup);
  HttpClient closing = start(server, kLongPlain), resetting = start(server, kLongPlain);
  REQUIRE(TestServer::eventually([&] { return server.stats().running == 2; }));
  closing.close();
  resetting.reset();
  CHECK(server.becomes_idle(2'000));
}

TEST_CASE("a client that leaves the queue or the prefill is forgotten") {
  ServerSetup setup{.before_step = pause_each_step(20)};
  setup.config.engine.slots = 1;
  setup.config.engine.step_tokens = 16;
  TestServer server(setup);
  const std::string long_prompt = R"({"prompt":")" + std::string(900, 'x') + R"(","stream":true})";
  HttpClient prefilling = start(server, long_prompt.c_str());
  REQUIRE(prefilling.wait_for("\r\n\r\n"));
  HttpClient queued = start(server, kLongStream);
  REQUIRE(queued.wait_for("\r\n\r\n"));
  REQUIRE(server.stats().generated_tokens == 0);
  queued.close();
  CHECK(TestServer::eventually([&] { return server.stats().waiting == 0; }));
  prefilling.close();
  CHECK(server.becomes_idle(2'000));
  CHECK(server.stats().generated_tokens == 0);
}

TEST_CASE("a client that only closes its sending side gets its whole stream") {
  ServerSetup setup{.script = answer_with(std::vector<TokenId>(30, 260)), .before_step = pause_each_step(10)};
  setup.config.http.probe_interval = Milliseconds(50);
  TestServer server(setup);
  HttpClient client = start(server, R"({"prompt":"Hi","max_tokens":100,"stream":true})");
  client.finish_sending();
  const Reply reply = client.read_reply();
  CHECK(reply.complete);
  CHECK(reply.events().back() == "[DONE]");
  CHECK(reply.events().size() >= 31);
  CHECK(reply.body.find(": ping\n\n") != std::string::npos);
}

TEST_CASE("a pipelined request during a stream is no departure") {
  TestServer server(
      {.script = answer_with(std::vector<TokenId>(20, 260)), .before_step = pause_each_step(5)});
  HttpClient client = start(server, R"({"prompt":"Hi","max_tokens":100,"stream":true})");
  REQUIRE(client.wait_for("\r\n\r\n"));
  client.send(request_text("GET", "/livez"));
  const Reply stream = client.read_reply();
  CHECK(stream.complete);
  CHECK(stream.events().back() == "[DONE]");
  CHECK(client.read_reply().status == 200);
}

TEST_CASE("a silent stream carries comments from the queue on") {
  ServerSetup setup{.before_step = pause_each_step(400)};
  setup.config.engine.slots = 1;
  setup.config.http.ping_interval = Milliseconds(50);
  TestServer server(setup);
  HttpClient running = start(server, kLongStream);
  REQUIRE(running.wait_for("\r\n\r\n"));
  HttpClient queued = start(server, kLongStream);
  REQUIRE(queued.wait_for(": ping\n\n", 1'000));
  CHECK(queued.received().find("data: ") == std::string::npos);
}

TEST_CASE("a stream carries comments while its prompt is read") {
  ServerSetup setup{.before_step = pause_each_step(50)};
  setup.config.engine.step_tokens = 32;
  setup.config.http.ping_interval = Milliseconds(20);
  TestServer server(setup);
  const std::string body = R"({"prompt":")" + std::string(900, 'x') + R"(","stream":true})";
  HttpClient client = start(server, body.c_str());
  REQUIRE(client.wait_for(": ping\n\n", 1'000));
  CHECK(client.received().find("data: ") == std::string::npos);
  CHECK(server.stats().waiting == 0);
}

TEST_CASE("a reader that stops reading is cut off as soon as more waits for it than may, or nothing moves") {
  ServerSetup setup{.before_step = pause_each_step(1)};
  SUBCASE("too much") {
    setup.config.http.slow_reader_timeout = std::chrono::hours(1);
    setup.config.http.max_output_bytes = 32 << 10;
  }
  SUBCASE("too long") {
    setup.config.http.slow_reader_timeout = Milliseconds(200);
    setup.config.http.max_output_bytes = 1 << 30;
  }
  TestServer server(setup);
  HttpClient client(server.port());
  client.set_receive_buffer(4096);
  // Much output: every token with twenty alternatives, again and again on one connection.
  const std::string request = request_text(
      "POST", "/v1/completions",
      R"({"prompt":"Hi","n":16,"max_tokens":900,"ignore_eos":true,"logprobs":20,"seed":1,"stream":true})");
  client.send(request);
  CHECK(TestServer::eventually([&] { return server.metric(kAborted) > 0; }, 20'000));
  CHECK(server.becomes_idle(5'000));
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
}

TEST_CASE("requests beyond slots and queue are refused at once with Retry-After") {
  std::atomic<bool> hold = true;
  ServerSetup setup;
  setup.before_step = [&hold](const Batch&) {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  setup.config.engine.slots = 4;
  setup.config.engine.max_waiting = 8;
  TestServer server(setup);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(start(server, kShort));
  std::vector<Reply> refused;
  std::vector<HttpClient*> accepted;
  for (HttpClient& client : clients) {
    if (client.receive(100)) {
      refused.push_back(client.read_reply());
    } else {
      accepted.push_back(&client);
    }
  }
  CHECK(refused.size() == 28);
  for (const Reply& reply : refused) {
    CHECK(reply.status == 429);
    CHECK(code_of(reply) == "queue_full");
    CHECK(std::stoi(reply.header("retry-after")) >= 1);
  }
  CHECK(get(server.port(), "/livez").status == 200);
  CHECK(server.metric("grokd_rejected_total{model=\"fake\",reason=\"queue_full\"}") == 28);
  hold = false;
  CHECK(accepted.size() == 12);
  for (HttpClient* client : accepted) CHECK(client->read_reply().status == 200);
}

TEST_CASE("while the model loads the port is open, models are listed and work is refused") {
  ServerSetup setup{.load = false};
  TestServer server(setup);
  CHECK(get(server.port(), "/livez").status == 200);
  server.server().host().set_progress(0.25);
  const Reply ready = get(server.port(), "/readyz");
  CHECK(ready.status == 503);
  CHECK(json::parse(ready.body)["status"] == "loading");
  CHECK(json::parse(ready.body)["progress"] == 0.25);
  CHECK(json::parse(get(server.port(), "/v1/models").body)["data"][0]["id"] == "fake");
  const Reply refused = post(server.port(), "/v1/completions", kShort);
  CHECK(refused.status == 503);
  CHECK(code_of(refused) == "model_loading");
  CHECK(!refused.header("retry-after").empty());
  CHECK(get(server.port(), "/metrics").status == 200);
  server.load(setup);
  CHECK(get(server.port(), "/readyz").status == 200);
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
}

TEST_CASE("draining lets streams end, refuses new work and then ends with exit code 0") {
  TestServer server(
      {.script = answer_with(std::vector<TokenId>(40, 260)), .before_step = pause_each_step(10)});
  std::vector<HttpClient> streams;
  for (int i = 0; i < 3; ++i)
    streams.push_back(start(server, R"({"prompt":"Hi","max_tokens":100,"stream":true})"));
  for (HttpClient& stream : streams) REQUIRE(stream.wait_for("data: "));
  server.server().drain();
  const Reply ready = get(server.port(), "/readyz");
  CHECK(ready.status == 503);
  CHECK(json::parse(ready.body)["status"] == "draining");
  CHECK(ready.header("connection") == "close");  // so that a proxy keeps none that is about to end
  Reply refused;
  CHECK(TestServer::eventually([&] {
    refused = post(server.port(), "/v1/completions", kShort);
    return refused.status == 503;
  }));
  CHECK(code_of(refused) == "shutting_down");
  CHECK(!refused.header("retry-after").empty());
  for (HttpClient& stream : streams) {
    const Reply reply = stream.read_reply();
    CHECK(reply.complete);
    CHECK(reply.events().back() == "[DONE]");
    CHECK(reply.body.find("error") == std::string::npos);
  }
  CHECK(server.server().wait() == 0);
}

TEST_CASE("a stream that outlasts the drain timeout ends with an error event and [DONE]") {
  ServerSetup setup{.before_step = pause_each_step(10)};
  setup.config.drain_timeout = Milliseconds(100);
  TestServer server(setup);
  HttpClient stream = start(server, kLongStream), plain = start(server, kLongPlain);
  REQUIRE(stream.wait_for("data: "));
  server.server().drain();
  const Reply reply = stream.read_reply();
  CHECK(reply.complete);
  const auto events = reply.events();
  REQUIRE(events.size() >= 2);
  CHECK(events.back() == "[DONE]");
  CHECK(json::parse(events[events.size() - 2])["error"]["code"] == "shutting_down");
  CHECK(plain.read_reply().status == 503);
  CHECK(server.server().wait() == 0);
}

TEST_CASE("an engine that fails turns /livez red and new work is refused") {
  std::atomic<bool> broken = false;
  TestServer server({.before_step = [&broken](const Batch&) {
    if (broken) throw std::runtime_error("injected");
  }});
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
  broken = true;
  CHECK(post(server.port(), "/v1/completions", kShort).status == 500);
  CHECK(get(server.port(), "/livez").status == 503);
  CHECK(json::parse(get(server.port(), "/readyz").body)["status"] == "stalled");
  const Reply refused = post(server.port(), "/v1/completions", kShort);
  CHECK(refused.status == 503);
  CHECK(code_of(refused) == "engine_unavailable");
}

TEST_CASE("an engine that hangs turns /livez red after the limit, an idle one does not") {
  std::atomic<bool> hang = false;
  ServerSetup setup;
  setup.config.stall_limit = Milliseconds(100);
  setup.before_step = [&hang](const Batch&) {
    while (hang) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  TestServer server(setup);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(get(server.port(), "/livez").status == 200);
  hang = true;
  HttpClient client = start(server, kShort);
  CHECK(TestServer::eventually([&] { return get(server.port(), "/livez").status == 503; }));
  hang = false;
  CHECK(client.read_reply().status == 200);
  CHECK(get(server.port(), "/livez").status == 200);
}

TEST_CASE("health answers stay quick under many streams") {
  TestServer server({.before_step = pause_each_step(2)});
  std::vector<HttpClient> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(start(server, kLongStream));
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(get(server.port(), "/livez").status == 200);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));  // a hang, not a speed
  }
  for (HttpClient& stream : streams) stream.reset();
  CHECK(server.becomes_idle());
}

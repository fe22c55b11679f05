// Hundreds of clients at once: silent ones, slow ones, rude ones, and those who only ask how things are.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

constexpr const char* kLongStream =
    R"({"prompt":"Hi","max_tokens":900,"ignore_eos":true,"seed":1,"stream":true})";
constexpr const char* kShort = R"({"prompt":"Hi","max_tokens":2})";

/// Both ends of every connection are in this process.
void allow_many_sockets() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096 / (1 << 20);
}

HttpClient start(TestServer& server, std::string_view body) {
  HttpClient client(server.port());
  client.send(request_text("POST", "/v1/completions", body));
  return client;
}

ServerSetup with_room_for(int requests) {
  allow_many_sockets();
  ServerSetup setup;
  setup.config.engine.max_waiting = requests;
  return setup;
}

}  // namespace

TEST_CASE("hundreds of clients that never end their header are closed in time, and others served") {
  ServerSetup setup = with_room_for(16);
  setup.config.http.header_timeout = Milliseconds(400);
  TestServer server(setup);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 500; ++i) {
    clients.emplace_back(server.port());
    clients.back().send("GET /livez HT");
  }
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
  for (HttpClient& client : clients) {
    CHECK(client.read_reply().status == 408);
    CHECK(client.wait_for_close(5'000));
  }
}

TEST_CASE("two hundred clients that reset at the first byte of their stream leave nothing behind") {
  ServerSetup setup = with_room_for(300);
  setup.before_step = pause_each_step(1);
  TestServer server(setup);
  for (int i = 0; i < 200; ++i) {
    HttpClient client = start(server, kLongStream);
    REQUIRE(client.wait_for("\r\n\r\n"));
    client.reset();
  }
  CHECK(server.becomes_idle());
  CHECK(server.stats().kv_pages_used == 0);
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
}

TEST_CASE("300 streams that are cut off at random moments leave nothing behind") {
  ServerSetup setup = with_room_for(400);
  setup.before_step = pause_each_step(1);
  TestServer server(setup);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(start(server, kLongStream));
  std::mt19937 random(7);
  std::vector<std::size_t> order(clients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    if (random() % 2 == 0) {
      clients[i].reset();
    } else {
      clients[i].close();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
  }
  CHECK(server.becomes_idle());
  CHECK(server.stats().kv_pages_used == 0);
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostGrowthMib = 1024;  // with what the sanitizer keeps of freed memory
#else
constexpr double kMostGrowthMib = 50;
#endif

TEST_CASE("fifty readers that take nothing cost bounded memory, harm nobody and are cut off") {
  ServerSetup setup = with_room_for(1000);
  setup.config.http.slow_reader_timeout = Milliseconds(1'500);
  setup.config.engine.slots = 16;
  TestServer server(setup);
  const double before = resident_mib();
  std::vector<HttpClient> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(server.port());
    clients.back().set_receive_buffer(4096);
    clients.back().send(request_text(
        "POST", "/v1/completions",
        R"({"prompt":"Hi","n":8,"max_tokens":900,"ignore_eos":true,"logprobs":5,"seed":1,"stream":true})"));
  }
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
  CHECK(resident_mib() < before + kMostGrowthMib);
  CHECK(server.becomes_idle(30'000));
  CHECK(TestServer::eventually([&] { return server.metric("grokd_connections") <= 1; }, 10'000));
  CHECK(resident_mib() < before + kMostGrowthMib);
}

TEST_CASE("a slow reader gets ten thousand pieces in order, with comments in between") {
  ServerSetup setup = with_room_for(16);
  setup.context = 12'000;
  setup.config.http.ping_interval = Milliseconds(1);
  setup.pieces.clear();
  for (int i = 0; i < 100; ++i) setup.pieces.push_back("<" + std::to_string(i) + ">");
  setup.script = [](std::span<const TokenId>, const kernels::SamplingRow& row) {
    return FakeTokenizer::kFirstPiece + static_cast<TokenId>(row.draw % 100);
  };
  int step = 0;
  setup.before_step = [&step](const Batch&) {
    if (++step % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  TestServer server(setup);
  HttpClient client(server.port());
  client.set_receive_buffer(32 << 10);
  client.send(request_text("POST", "/v1/completions",
                           R"({"prompt":"Hi","max_tokens":10000,"ignore_eos":true,"stream":true})"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Reply reply = client.read_reply();
  CHECK(reply.complete);
  CHECK(reply.body.find(": ping\n\n") != std::string::npos);
  std::string text, expected;
  for (const std::string& event : reply.events()) {
    if (event != "[DONE]") text += json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  for (int i = 0; i < 10'000; ++i) expected += setup.pieces[static_cast<std::size_t>(i % 100)];
  CHECK(text == expected);
}

TEST_CASE("health answers come while 500 streams are open and a long prompt is read") {
  ServerSetup setup = with_room_for(600);
  setup.config.engine.step_tokens = 32;
  setup.before_step = pause_each_step(2);
  TestServer server(setup);
  std::vector<HttpClient> streams;
  streams.push_back(
      start(server, R"({"prompt":")" + std::string(900, 'x') + R"(","max_tokens":9,"stream":true})"));
  for (int i = 1; i < 500; ++i) streams.push_back(start(server, kLongStream));
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(get(server.port(), "/livez").status == 200);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));  // a hang, not a speed
  }
  CHECK(server.stats().running + server.stats().waiting >= 400);
  for (HttpClient& stream : streams) stream.reset();
  CHECK(server.becomes_idle());
}

// Traces: what a traceparent says, and what a collector gets. The port that has only metrics.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "service/trace_context.h"
#include "service/trace_exporter.h"
#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

constexpr const char* kShort = R"({"prompt":"Hi","max_tokens":2})";
const std::string kTraceId = "4bf92f3577b34da6a3ce929d0e0e4736", kSpanId = "00f067aa0ba902b7";

/// Takes one connection after the other, answers each request with that status and keeps its body.
class Collector {
 public:
  explicit Collector(int status) : fd_(::socket(AF_INET, SOCK_STREAM, 0)), status_(status) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd_, 16) != 0)
      throw std::runtime_error("no port for the collector");
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Collector() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces"; }
  /// All spans so far.
  std::vector<json> spans() {
    std::lock_guard lock(mutex_);
    std::vector<json> all;
    for (const std::string& body : bodies_) {
      const json message = json::parse(body);
      for (const auto& resource : message["resourceSpans"])
        for (const auto& span : resource["scopeSpans"][0]["spans"]) all.push_back(span);
    }
    return all;
  }

 private:
  void serve() {
    for (int client = ::accept(fd_, nullptr, nullptr); client >= 0;
         client = ::accept(fd_, nullptr, nullptr)) {
      std::string text;
      std::size_t head = std::string::npos, length = 0;
      char bytes[4096];
      while (head == std::string::npos || text.size() < head + 4 + length) {
        const ssize_t got = ::recv(client, bytes, sizeof(bytes), 0);
        if (got <= 0) break;
        text.append(bytes, static_cast<std::size_t>(got));
        head = text.find("\r\n\r\n");
        const std::size_t at = text.find("Content-Length: ");
        if (at != std::string::npos) length = std::stoul(text.substr(at + 16));
      }
      {
        std::lock_guard lock(mutex_);
        bodies_.push_back(text.substr(std::min(head + 4, text.size())));
      }
      const std::string reply =
          "HTTP/1.1 " + std::to_string(status_) + " X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
      (void)!::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
      ::close(client);
    }
  }

  int fd_, status_, port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> bodies_;
  std::thread thread_;
};

json attribute(const json& span, const std::string& key) {
  for (const auto& one : span["attributes"]) {
    if (one["key"] == key) return one["value"];
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a traceparent is understood by the letter, later versions as far as they are known") {
  const auto parse = [](const std::string& text) { return parse_traceparent(text); };
  const auto good = parse("00-" + kTraceId + "-" + kSpanId + "-01");
  REQUIRE(good);
  CHECK(good->trace_id == kTraceId);
  CHECK(good->parent_span_id == kSpanId);
  CHECK(good->sampled);
  CHECK(!parse("00-" + kTraceId + "-" + kSpanId + "-02")->sampled);
  CHECK(parse("cc-" + kTraceId + "-" + kSpanId + "-01-what-comes-later"));
  for (const std::string& bad :
       {std::string(), "00-" + kTraceId + "-" + kSpanId, "ff-" + kTraceId + "-" + kSpanId + "-01",
        "00-" + kTraceId + "-" + kSpanId + "-01-more", "00-" + std::string(32, '0') + "-" + kSpanId + "-01",
        "00-" + kTraceId + "-" + std::string(16, '0') + "-01",
        "00-" + std::string(32, 'A') + "-" + kSpanId + "-01", "cc-" + kTraceId + "-" + kSpanId + "-01x",
        "00_" + kTraceId + "-" + kSpanId + "-01"}) {
    CAPTURE(bad);
    CHECK(!parse(bad));
  }
}

TEST_CASE("a collector gets a span of each request under its caller's, with parts that lie inside it") {
  Collector collector(200);
  ServerSetup setup{.before_step = pause_each_step(2)};
  setup.config.otlp_endpoint = collector.url();
  TestServer server(setup);
  const std::string parent = "traceparent: 00-" + kTraceId + "-" + kSpanId;
  CHECK(post(server.port(), "/v1/completions", kShort, parent + "-00\r\n").status == 200);  // not sampled
  CHECK(post(server.port(), "/v1/completions", kShort, parent + "-01\r\nX-Request-Id: mine\r\n").status ==
        200);
  CHECK(get(server.port(), "/nowhere").status == 404);
  CHECK(TestServer::eventually([&] { return collector.spans().size() >= 5; }));
  json root, other;
  int parts = 0;
  const auto spans = collector.spans();
  for (const json& span : spans) {
    if (span["name"] == "POST /v1/completions") root = span;
    if (span["name"] == "GET other") other = span;
  }
  REQUIRE(root.is_object());
  CHECK(root["traceId"] == kTraceId);
  CHECK(root["parentSpanId"] == kSpanId);
  CHECK(root["kind"] == 2);
  CHECK(attribute(root, "grokd.request_id")["stringValue"] == "mine");
  CHECK(attribute(root, "http.response.status_code")["intValue"] == "200");
  CHECK(attribute(root, "gen_ai.usage.output_tokens")["intValue"] == "2");
  const auto nanos = [](const json& time) { return std::stoll(time.get<std::string>()); };
  for (const json& span : spans) {
    if (!span.contains("parentSpanId") || span["parentSpanId"] != root["spanId"]) continue;
    ++parts;
    CHECK(span["traceId"] == kTraceId);
    CHECK(nanos(span["startTimeUnixNano"]) >= nanos(root["startTimeUnixNano"]));
    CHECK(nanos(span["endTimeUnixNano"]) <= nanos(root["endTimeUnixNano"]));
  }
  CHECK(parts >= 3);
  REQUIRE(other.is_object());
  CHECK(!other.contains("parentSpanId"));
  CHECK(other["traceId"] != kTraceId);
  CHECK(attribute(other, "error.type")["stringValue"] == "unknown_url");
  CHECK(TestServer::eventually(
      [&] { return server.metric("grokd_traces_total{model=\"fake\",outcome=\"sent\"}") >= 2; }));
}

TEST_CASE("a collector that is away or refuses costs spans and nothing else") {
  Collector refusing(503);
  ServerSetup setup;
  SUBCASE("away") { setup.config.otlp_endpoint = "http://127.0.0.1:1/v1/traces"; }
  SUBCASE("refusing") { setup.config.otlp_endpoint = refusing.url(); }
  TestServer server(setup);
  for (int i = 0; i < 3; ++i) CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
  CHECK(TestServer::eventually(
      [&] { return server.metric("grokd_traces_total{model=\"fake\",outcome=\"dropped\"}") >= 3; }));
}

TEST_CASE("an endpoint that is none is refused by name") {
  for (const char* url : {"", "collector:4318", "https://collector/", "http://", "http://:4318/x"}) {
    CAPTURE(url);
    CHECK_THROWS_AS(TraceExporter(url, [](int, bool) {}), ConfigError);
  }
}

TEST_CASE("with a port of their own, metrics are there without a key and nowhere else") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"secret"}};
  setup.config.metrics_port = 0;
  TestServer server(setup);
  const int port = server.server().metrics_port();
  REQUIRE(port > 0);
  CHECK(get(port, "/metrics").status == 200);
  CHECK(get(port, "/metrics").body.find("grokd_build_info") != std::string::npos);
  for (const char* path : {"/livez", "/readyz"}) CHECK(get(port, path).status == 200);
  for (const char* path : {"/", "/v1/models", "/load", "/openapi.yaml"}) CHECK(get(port, path).status == 404);
  CHECK(post(port, "/v1/completions", kShort, "X-Api-Key: secret\r\n").status == 404);
  CHECK(get(server.port(), "/metrics", "X-Api-Key: secret\r\n").status == 404);
  CHECK(get(server.port(), "/readyz").status == 200);
}

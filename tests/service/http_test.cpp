// The HTTP layer: limits, framing, methods, keys, CORS.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

constexpr const char* kShort = R"({"prompt":"Hi","max_tokens":2})";

std::string code_of(const Reply& reply) { return json::parse(reply.body)["error"]["code"]; }

/// The answer to these bytes, and whether the server closed after it.
Reply exchange(int port, const std::string& bytes, bool& closed) {
  HttpClient client(port);
  client.send(bytes);
  Reply reply = client.read_reply();
  closed = client.wait_for_close(1'000);
  CHECK(client.received().empty());  // one answer only
  return reply;
}

}  // namespace

TEST_CASE("an error has all four keys") {
  TestServer server;
  const Reply reply = get(server.port(), "/nowhere");
  CHECK(reply.status == 404);
  const json error = json::parse(reply.body)["error"];
  CHECK(error.size() == 4);
  CHECK(error["code"] == "unknown_url");
  CHECK(error["param"].is_null());
  CHECK(error["type"] == "invalid_request_error");
}

TEST_CASE("another method on a known path is 405 with Allow") {
  TestServer server;
  const Reply reply = get(server.port(), "/v1/completions");
  CHECK(reply.status == 405);
  CHECK(reply.header("allow") == "POST, OPTIONS");
  CHECK(code_of(reply) == "method_not_allowed");
  CHECK(post(server.port(), "/v1/models", "{}").header("allow") == "GET, HEAD, OPTIONS");
}

TEST_CASE("trailing and doubled slashes are the same path") {
  TestServer server;
  for (const char* path : {"/v1/models/", "//v1//models", "/v1/models?x=1", "/v1%2Fmodels"}) {
    CHECK(get(server.port(), path).status == 200);
  }
  CHECK(get(server.port(), "/v1/models/fake").status == 200);
  CHECK(get(server.port(), "/v1/models/other").status == 404);
}

TEST_CASE("HEAD is answered like GET without a body") {
  TestServer server;
  HttpClient client(server.port());
  client.send(request_text("HEAD", "/v1/models"));
  const Reply head = client.read_reply(false);
  CHECK(head.status == 200);
  CHECK(std::stoi(head.header("content-length")) > 0);
  client.send(request_text("GET", "/livez"));  // the connection is in step
  CHECK(client.read_reply().status == 200);
}

TEST_CASE("a connection serves request after request, pipelined ones too") {
  TestServer server;
  HttpClient client(server.port());
  client.send(request_text("POST", "/v1/completions", kShort) + request_text("GET", "/livez") +
              request_text("POST", "/v1/completions", kShort));
  CHECK(json::parse(client.read_reply().body).contains("choices"));
  CHECK(client.read_reply().status == 200);
  CHECK(json::parse(client.read_reply().body).contains("choices"));
}

TEST_CASE("an HTTP/1.0 stream has no chunks and ends with the connection") {
  TestServer server({.script = answer_with({260, 261})});
  HttpClient client(server.port());
  const std::string body = R"({"prompt":"Hi","stream":true})";
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  const Reply reply = client.read_reply();
  CHECK(reply.status == 200);
  CHECK(reply.header("transfer-encoding").empty());
  CHECK(reply.header("connection") == "close");
  REQUIRE(!reply.events().empty());
  CHECK(reply.events().back() == "[DONE]");
  CHECK(client.ended());
}

TEST_CASE("doubtful framing is refused once and the connection closed") {
  TestServer server;
  const std::string start = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
  const std::string second = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string framings[] = {
      "Transfer-Encoding: gzip\r\n\r\n" + second,
      "Transfer-Encoding: gzip, chunked\r\n\r\n" + second,
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
      "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + second,
      "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + second,
      "Transfer-Encoding: \x0b"
      "chunked\r\n\r\n0\r\n\r\n" +
          second,
      "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!" + second,
      "Content-Length: +5\r\n\r\nhello" + second,
      "Content-Length: -1\r\n\r\n" + second,
      "Content-Length: 0x5\r\n\r\nhello" + second,
      "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n" + second,
      "Content-Length : 5\r\n\r\nhello" + second,
  };
  for (const std::string& framing : framings) {
    CAPTURE(framing);
    bool closed = false;
    const Reply reply = exchange(server.port(), start + framing, closed);
    CHECK(reply.status == 400);
    CHECK(closed);
  }
  bool closed = false;
  CHECK(exchange(server.port(),
                 "POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", closed)
            .status == 400);
  CHECK(closed);
  CHECK(exchange(server.port(), "GET /livez HTTP/1.1\r\n\r\n", closed).status == 400);
  CHECK(exchange(server.port(), "nonsense\r\n\r\n", closed).status == 400);
  CHECK(get(server.port(), "/livez").status == 200);
}

TEST_CASE("a POST without length is 411") {
  TestServer server;
  bool closed = false;
  const Reply reply = exchange(server.port(), "POST /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", closed);
  CHECK(reply.status == 411);
  CHECK(code_of(reply) == "length_required");
}

TEST_CASE("a chunked body is read") {
  TestServer server;
  HttpClient client(server.port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n");
  client.send("10;ext=1\r\n{\"prompt\":\"Hello\r\n2\r\n\"}\r\n0\r\nTrailer: x\r\n\r\n");
  CHECK(client.read_reply().status == 200);
}

TEST_CASE("only JSON without a content coding is accepted") {
  TestServer server;
  const auto status_of = [&](const std::string& type_header) {
    HttpClient client(server.port());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + type_header +
                "Content-Length: " + std::to_string(std::strlen(kShort)) + "\r\n\r\n" + kShort);
    return client.read_reply().status;
  };
  for (const char* type :
       {"", "Content-Type: application/json; charset=utf-8\r\n", "Content-Type: Application/JSON\r\n",
        "Content-Type: application/vnd.api+json\r\n", "Content-Encoding: identity\r\n"}) {
    CAPTURE(type);
    CHECK(status_of(type) == 200);
  }
  for (const char* type :
       {"Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/jsonp\r\n", "Content-Encoding: gzip\r\n"}) {
    CAPTURE(type);
    CHECK(status_of(type) == 415);
  }
}

TEST_CASE("limits of header, target and body have their own codes") {
  ServerSetup setup;
  setup.config.http.max_body_bytes = 1000;
  TestServer server(setup);
  bool closed = false;
  const std::string long_header = "X-Long: " + std::string(20'000, 'a') + "\r\n";
  CHECK(exchange(server.port(), request_text("GET", "/livez", {}, long_header), closed).status == 431);
  CHECK(closed);
  CHECK(exchange(server.port(), request_text("GET", "/" + std::string(9'000, 'a')), closed).status == 414);
  CHECK(exchange(server.port(), request_text("GET", "/" + std::string(20'000, 'a')), closed).status == 414);

  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n";
  const Reply declared = exchange(server.port(), head + "Content-Length: 100000\r\n\r\n", closed);
  CHECK(declared.status == 413);  // before any of it was sent
  CHECK(closed);
  const std::string chunk = "200\r\n" + std::string(512, 'x') + "\r\n";
  const Reply chunked =
      exchange(server.port(), head + "Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk, closed);
  CHECK(chunked.status == 413);  // as soon as it was passed
  CHECK(closed);
  CHECK(post(server.port(), "/v1/completions", R"({"prompt":")" + std::string(900, 'x') + R"("})").status ==
        200);
}

TEST_CASE("a body below the limit is read whole, above a mebibyte too") {
  TestServer server;
  const Reply reply =
      post(server.port(), "/v1/completions", R"({"prompt":")" + std::string(2'000'000, 'x') + R"("})");
  CHECK(reply.status == 400);
  CHECK(code_of(reply) == "context_length_exceeded");
}

TEST_CASE("Expect: 100-continue is answered once the header has passed, else not at all") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"secret"}};
  TestServer server(setup);
  const std::string expect =
      "Expect: 100-continue\r\nContent-Length: " + std::to_string(std::strlen(kShort)) + "\r\n\r\n";
  HttpClient client(server.port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n" + expect);
  CHECK(client.read_reply().status == 100);
  client.send(kShort);
  CHECK(client.read_reply().status == 200);

  bool closed = false;
  CHECK(exchange(server.port(), "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + expect, closed).status ==
        401);
  CHECK(closed);
  CHECK(exchange(server.port(),
                 "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nExpect: "
                 "200-maybe\r\nContent-Length: 3\r\n\r\n",
                 closed)
            .status == 417);
}

TEST_CASE("slow clients are cut off while others are served") {
  ServerSetup setup;
  setup.config.http.header_timeout = Milliseconds(150);
  setup.config.http.body_timeout = Milliseconds(150);
  setup.config.http.idle_timeout = Milliseconds(150);
  TestServer server(setup);
  HttpClient silent(server.port()), slow_header(server.port()), slow_body(server.port()), idle(server.port());
  slow_header.send("GET /livez HT");
  slow_body.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{");
  idle.send(request_text("GET", "/livez"));
  CHECK(idle.read_reply().status == 200);
  CHECK(get(server.port(), "/livez").status == 200);
  CHECK(silent.wait_for_close(2'000));
  CHECK(silent.received().empty());
  CHECK(slow_header.read_reply().status == 408);
  CHECK(slow_header.wait_for_close(2'000));
  const Reply late = slow_body.read_reply();
  CHECK(late.status == 408);
  CHECK(code_of(late) == "request_timeout");
  CHECK(slow_body.wait_for_close(2'000));
  CHECK(idle.wait_for_close(2'000));
}

TEST_CASE("a slow body is read on while it keeps the rate") {
  ServerSetup setup;
  setup.config.http.body_timeout = Milliseconds(100);
  setup.config.http.min_body_rate = 10;
  TestServer server(setup);
  HttpClient client(server.port());
  const std::string body = R"({"prompt":"Hello world","max_tokens":2})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n");
  for (std::size_t i = 0; i < body.size(); i += 8) {
    client.send(body.substr(i, 8));
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  CHECK(client.read_reply().status == 200);
}

TEST_CASE("keys are needed where they should be, in either header") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"first"}, ApiKey{"second"}};
  TestServer server(setup);
  const auto status = [&](const std::string& headers) {
    return get(server.port(), "/v1/models", headers).status;
  };
  CHECK(status("Authorization: Bearer first\r\n") == 200);
  CHECK(status("authorization: bEARER second\r\n") == 200);
  CHECK(status("X-Api-Key: second\r\n") == 200);
  for (const char* wrong :
       {"", "Authorization: Bearer \r\n", "Authorization: Bearer firs\r\n", "X-Api-Key: First\r\n",
        "Authorization: Bearer firstfirst\r\n", "Authorization: Basic first\r\n"}) {
    CAPTURE(wrong);
    const Reply reply = get(server.port(), "/v1/models", wrong);
    CHECK(reply.status == 401);
    CHECK(code_of(reply) == "invalid_api_key");
    CHECK(reply.header("www-authenticate") == "Bearer");
  }
  for (const char* open : {"/livez", "/readyz", "/health", "/v2/health/live", "/v2/health/ready"}) {
    CHECK(get(server.port(), open).status == 200);
  }
  CHECK(get(server.port(), "/metrics").status == 401);
  CHECK(get(server.port(), "/load").status == 401);
  CHECK(post(server.port(), "/v1/completions", kShort).status == 401);
}

TEST_CASE("a preflight needs no key, and errors carry the allowed origin") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"secret"}};
  setup.config.cors_origins = {"https://chat.example"};
  TestServer server(setup);
  HttpClient client(server.port());
  client.send(request_text("OPTIONS", "/v1/chat/completions", {},
                           "Origin: https://chat.example\r\nAccess-Control-Request-Method: POST\r\n"
                           "Access-Control-Request-Headers: authorization, x-stainless-os, x-evil\r\n"));
  const Reply preflight = client.read_reply();
  CHECK(preflight.status == 204);
  CHECK(preflight.header("access-control-allow-origin") == "https://chat.example");
  CHECK(preflight.header("access-control-allow-headers") == "authorization, x-stainless-os");
  CHECK(preflight.header("access-control-allow-methods") == "GET, POST, OPTIONS");
  const Reply refused =
      post(server.port(), "/v1/chat/completions", kShort, "Origin: https://chat.example\r\n");
  CHECK(refused.status == 401);
  CHECK(refused.header("access-control-allow-origin") == "https://chat.example");
  CHECK(refused.header("vary") == "Origin");
  CHECK(get(server.port(), "/livez", "Origin: https://evil.example\r\n")
            .header("access-control-allow-origin")
            .empty());
}

TEST_CASE("a request id is taken over when it is sane, and never becomes the answer's id") {
  TestServer server;
  CHECK(get(server.port(), "/livez", "X-Request-Id: my-id:1\r\n").header("x-request-id") == "my-id:1");
  for (const std::string& bad : {std::string("a b"), std::string(129, 'a'), std::string("a\"b")}) {
    CHECK(get(server.port(), "/livez", "X-Request-Id: " + bad + "\r\n").header("x-request-id").size() == 32);
  }
  const Reply reply = post(server.port(), "/v1/completions", kShort, "X-Request-Id: mine\r\n");
  CHECK(reply.header("x-request-id") == "mine");
  CHECK(json::parse(reply.body)["id"].get<std::string>().find("mine") == std::string::npos);
}

TEST_CASE("a body that is not sane JSON is refused with valid UTF-8, and the next request works") {
  TestServer server;
  const std::string deep =
      R"({"prompt":"x","tools":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  const std::pair<std::string, std::string> bodies[] = {{"{\"prompt\":\"\xff\"}", "invalid_json"},
                                                        {"", "invalid_json"},
                                                        {"[1]", "invalid_type"},
                                                        {deep, "json_too_deep"}};
  for (const auto& [body, code] : bodies) {
    const Reply reply = post(server.port(), "/v1/completions", body);
    CHECK(reply.status == 400);
    CHECK(code_of(reply) == code);  // json::parse refuses bad UTF-8
  }
  CHECK(post(server.port(), "/v1/completions", kShort).status == 200);
}

TEST_CASE("made-up models, paths and methods make no new metric series") {
  TestServer server;
  const auto lines = [&] {
    const std::string text = get(server.port(), "/metrics").body;
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto provoke = [&](int i) {
    const std::string name = std::to_string(i);
    HttpClient client(server.port());
    client.send(request_text("GET", "/x" + name) + request_text("M" + name, "/v1/models") +
                request_text("POST", "/v1/completions", R"({"prompt":"a","model":"m)" + name + "\"}"));
    CHECK(client.read_reply().status == 404);
    CHECK(client.read_reply().status == 405);
    CHECK(client.read_reply().status == 404);
  };
  provoke(0);
  // An answer is counted after it was sent: wait until all of these are, that of /metrics included.
  const auto all_counted = [&] {
    const std::string text = get(server.port(), "/metrics").body;
    return text.find("route=\"/metrics\"") != std::string::npos &&
           text.find("route=\"/v1/completions\"") != std::string::npos;
  };
  REQUIRE(TestServer::eventually(all_counted));
  const auto before = lines();
  for (int i = 1; i < 40; ++i) provoke(i);
  CHECK(lines() == before);
}

TEST_CASE("too many connections are turned away with 503") {
  ServerSetup setup;
  setup.config.http.max_connections = 3;
  TestServer server(setup);
  std::vector<HttpClient> open;
  for (int i = 0; i < 3; ++i) open.emplace_back(server.port());
  HttpClient refused(server.port());
  const Reply reply = refused.read_reply();
  CHECK(reply.status == 503);
  CHECK(!reply.header("retry-after").empty());
  open.clear();
  CHECK(TestServer::eventually([&] { return get(server.port(), "/livez").status == 200; }));
}

TEST_CASE("the chat page and the API's description come from the program itself, without a key") {
  ServerSetup setup;
  setup.config.api_keys = {ApiKey{"secret"}};
  TestServer server(setup);
  const Reply page = get(server.port(), "/");
  CHECK(page.status == 200);
  CHECK(page.header("content-type") == "text/html; charset=utf-8");
  CHECK(page.body.rfind("<!doctype html>", 0) == 0);
  CHECK(page.body.find("</html>") != std::string::npos);
  const Reply description = get(server.port(), "/openapi.yaml");
  CHECK(description.status == 200);
  CHECK(description.body.rfind("openapi: 3.1", 0) == 0);
}

#include "service/exchange.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "service/access.h"

namespace grokd {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_request_id(std::string_view id) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  };
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), allowed);
}

}  // namespace

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  // Never short for so few bytes once the system's pool is filled.
  [[maybe_unused]] const auto got = getrandom(bytes.data(), bytes.size(), 0);
  std::string id;
  for (unsigned char byte : bytes) {
    id += kHexDigits[byte >> 4];
    id += kHexDigits[byte & 15];
  }
  return id;
}

Exchange::Exchange(std::shared_ptr<Connection> connection, HttpRequest request, const ServerConfig& config)
    : connection_(std::move(connection)), request_(std::move(request)) {
  const std::string_view given = request_.header("X-Request-Id");
  record_.request_id = is_request_id(given) ? std::string(given) : random_id();
  record_.trace = parse_traceparent(trim(request_.header("traceparent")));
  record_.method = request_.method;
  record_.path = request_.path;
  record_.client = connection_->peer_address();
  headers_ = cors_headers(request_, config.cors_origins);
}

void Exchange::set_account(std::shared_ptr<KeyAccount> account) {
  account_ = std::move(account);
  record_.key_hash = account_->hash();
}

asio::awaitable<bool> Exchange::read_body() {
  const bool complete = co_await connection_->read_body(request_);
  co_return complete;
}

void Exchange::add_header(std::string name, std::string value) {
  headers_.push_back({std::move(name), std::move(value)});
}

bool Exchange::keep_alive() const {
  return keep_alive_ && request_.keep_alive && !connection_->body_pending() && !connection_->must_end();
}

std::string Exchange::head(int status, std::string_view content_type) const {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " ";
  text += reason_phrase(status);
  text += "\r\nServer: grokd/" GROKD_VERSION "\r\nX-Request-Id: " + record_.request_id + "\r\n";
  if (!content_type.empty()) text.append("Content-Type: ").append(content_type).append("\r\n");
  for (const Header& h : headers_) text.append(h.name).append(": ").append(h.value).append("\r\n");
  return text;
}

asio::awaitable<void> Exchange::reply(const HttpResponse& response) {
  started_ = true;
  record_.status = response.status;
  std::string text =
      head(response.status, response.body.empty() ? std::string_view() : response.content_type);
  for (const Header& h : response.headers) text.append(h.name).append(": ").append(h.value).append("\r\n");
  if (response.status != 204) text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  if (!keep_alive()) {
    text += "Connection: close\r\n";
  } else if (request_.version < 11) {
    text += "Connection: keep-alive\r\n";
  }
  text += "\r\n";
  if (request_.method != "HEAD") text += response.body;
  co_await connection_->write(text);
}

asio::awaitable<void> Exchange::reply(const api::ApiError& error) {
  record_.error_code = error.code;
  HttpResponse response = json_response(api::to_json(error), error.status);
  if (error.retry_after_seconds) {
    response.headers.push_back({"Retry-After", std::to_string(*error.retry_after_seconds)});
  }
  if (error.should_retry)
    response.headers.push_back({"x-should-retry", *error.should_retry ? "true" : "false"});
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  co_await reply(response);
}

asio::awaitable<void> Exchange::start_stream() {
  started_ = true;
  record_.status = 200;
  record_.stream = true;
  chunked_ = request_.version >= 11;
  if (!chunked_) keep_alive_ = false;
  std::string text = head(200, "text/event-stream; charset=utf-8");
  text += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (chunked_) text += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive()) text += "Connection: close\r\n";
  text += "\r\n";
  last_write_ = std::chrono::steady_clock::now();
  co_await connection_->write(text);
}

asio::awaitable<void> Exchange::write(std::string_view events) {
  if (events.empty()) co_return;  // an empty chunk would end the body
  last_write_ = std::chrono::steady_clock::now();
  if (!chunked_) {
    co_await connection_->write(events);
    co_return;
  }
  char size[20];
  const auto end = std::to_chars(size, size + sizeof(size), events.size(), 16).ptr;
  frame_.assign(size, end).append("\r\n").append(events).append("\r\n");
  co_await connection_->write(frame_);
}

asio::awaitable<void> Exchange::finish_stream() {
  if (chunked_) co_await connection_->write("0\r\n\r\n");
}

}  // namespace grokd

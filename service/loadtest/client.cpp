#include "service/loadtest/client.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <stdexcept>

#include "service/loadtest/event_reader.h"

namespace grokd::loadtest {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);

http::request<http::string_body> make_request(const Target& target, std::string body) {
  http::request<http::string_body> request(http::verb::post, target.path, 11);
  request.set(http::field::host, target.host + ":" + target.port);
  request.set(http::field::content_type, "application/json");
  if (!target.key.empty()) request.set(http::field::authorization, "Bearer " + target.key);
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

void take_events(Timeline& timeline, EventReader& reader, std::string_view bytes) {
  std::vector<EventReader::Event> events;
  reader.feed(bytes, events);
  const auto now = Clock::now();
  for (const auto event : events) {
    if (event == EventReader::Event::text) timeline.events.push_back(now);
    if (event == EventReader::Event::done) timeline.done = true;
    if (event == EventReader::Event::error) timeline.error = "error event";
  }
}

/// Reads the body as it comes; an answer that is no stream is just read to its end.
asio::awaitable<error_code> read_events(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                        http::response_parser<http::buffer_body>& parser,
                                        Timeline& timeline) {
  EventReader reader;
  char chunk[16384];
  while (!parser.is_done()) {
    parser.get().body().data = chunk;
    parser.get().body().size = sizeof chunk;
    auto [error, count] = co_await http::async_read_some(stream, buffer, parser, kResult);
    (void)count;
    if (error == http::error::need_buffer) error = {};
    const std::size_t filled = sizeof chunk - parser.get().body().size;
    if (timeline.status == 200) take_events(timeline, reader, {chunk, filled});
    if (error) co_return error;
  }
  co_return error_code{};
}

asio::awaitable<error_code> exchange(const Target& target, std::string body, Timeline& timeline,
                                     std::chrono::seconds limit) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  auto [resolve_error, endpoints] = co_await resolver.async_resolve(target.host, target.port, kResult);
  if (resolve_error) co_return resolve_error;
  beast::tcp_stream stream(executor);
  stream.expires_after(limit);
  auto [connect_error, endpoint] = co_await stream.async_connect(endpoints, kResult);
  if (connect_error) co_return connect_error;
  stream.socket().set_option(tcp::no_delay(true));
  auto request = make_request(target, std::move(body));
  timeline.sent = Clock::now();
  auto [write_error, written] = co_await http::async_write(stream, request, kResult);
  if (write_error) co_return write_error;
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  auto [header_error, header_bytes] = co_await http::async_read_header(stream, buffer, parser, kResult);
  if (header_error) co_return header_error;
  timeline.answered = Clock::now();
  timeline.status = static_cast<int>(parser.get().result_int());
  co_return co_await read_events(stream, buffer, parser, timeline);
}

}  // namespace

Target parse_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme))
    throw std::invalid_argument("--url: " + url + " does not begin with http://");
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  const std::string authority = rest.substr(0, slash);
  const std::size_t colon = authority.rfind(':');
  Target target;
  target.host = authority.substr(0, colon);
  target.port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
  if (target.host.empty() || target.port.empty())
    throw std::invalid_argument("--url: " + url + " names no host");
  if (slash != std::string::npos && rest.size() > slash + 1) target.path = rest.substr(slash);
  return target;
}

asio::awaitable<Timeline> stream_completion(const Target& target, std::string body,
                                            std::chrono::seconds limit) {
  Timeline timeline;
  timeline.sent = Clock::now();
  const error_code error = co_await exchange(target, std::move(body), timeline, limit);
  timeline.ended = Clock::now();
  if (error) timeline.error = error.message();
  if (timeline.error.empty() && timeline.status == 200 && !timeline.done)
    timeline.error = "the stream ended early";
  co_return timeline;
}

}  // namespace grokd::loadtest

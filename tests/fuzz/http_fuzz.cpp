// Any bytes as a request's header, cut anywhere: refused with a 4xx, or taken with one clear framing.

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "api/error.h"
#include "service/access.h"
#include "service/request_checks.h"
#include "service/trace_context.h"

namespace {

namespace http = boost::beast::http;
using namespace grokd;

void require(bool holds) {
  if (!holds) std::abort();
}

/// As Connection does it, but for the socket.
bool parse(std::string_view bytes, const HttpLimits& limits, HttpRequest& request) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
  parser.body_limit(boost::none);
  boost::system::error_code error;
  while (!parser.is_header_done() && !bytes.empty()) {
    const std::size_t taken = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    if (error || taken == 0) return false;
    bytes.remove_prefix(taken);
  }
  if (!parser.is_header_done()) return false;
  request.method = parser.get().method_string();
  request.target = parser.get().target();
  request.version = parser.get().version() < 11 ? 10 : 11;
  for (const auto& field : parser.get())
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  return true;
}

void check_taken(const HttpRequest& request, const HttpLimits& limits) {
  const auto lengths = request.all("Content-Length"), codings = request.all("Transfer-Encoding");
  require(lengths.size() + codings.size() <= 1);
  require(codings.empty() || request.version == 11);
  require(request.all("Host").size() <= 1);
  require(request.target.size() <= limits.max_target_bytes);
  require(request.path.starts_with('/') || request.path == "*");
  require(request.path.find("//") == std::string::npos);
  require(has_body(request) || codings.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  HttpLimits limits;
  limits.max_header_bytes = 4096;
  limits.max_target_bytes = 1024;
  HttpRequest request;
  if (!parse(bytes, limits, request)) return 0;
  try {
    check_framing(request, limits);
    check_taken(request, limits);
    check_body_headers(request, limits);
  } catch (const api::ApiError& error) {
    require(error.status >= 400 && error.status < 500);
  }
  const auto trace = parse_traceparent(request.header("traceparent"));
  require(!trace || (trace->trace_id.size() == 32 && trace->parent_span_id.size() == 16));
  for (const Header& header : preflight_headers(request))
    require(header.value.find('\n') == std::string::npos);
  presented_key(request);
  return 0;
}

#include "service/request_checks.h"

#include <algorithm>
#include <string>

#include "api/error.h"

namespace grokd {
namespace {

using api::errors::bad_request_framing;

void check_transfer_coding(const HttpRequest& request) {
  const auto codings = request.all("Transfer-Encoding");
  const auto lengths = request.all("Content-Length");
  if (lengths.size() > 1) throw bad_request_framing("Content-Length was sent more than once.");
  if (codings.empty()) return;
  if (!lengths.empty()) throw bad_request_framing("Content-Length and Transfer-Encoding were both sent.");
  if (request.version < 11) throw bad_request_framing("HTTP/1.0 has no Transfer-Encoding.");
  if (codings.size() > 1 || !equals_ignoring_case(trim(codings[0]), "chunked")) {
    throw bad_request_framing("The only transfer coding understood is one \"chunked\".");
  }
}

void check_content_length(const HttpRequest& request) {
  for (std::string_view length : request.all("Content-Length")) {
    length = trim(length);
    const bool digits =
        std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (length.empty() || !digits || length.size() > 18)
      throw bad_request_framing("Content-Length is not a length.");
  }
}

void check_host(const HttpRequest& request) {
  const auto hosts = request.all("Host").size();
  if (hosts > 1) throw bad_request_framing("Host was sent more than once.");
  if (hosts == 0 && request.version >= 11) throw bad_request_framing("HTTP/1.1 needs a Host header.");
}

/// "application/json", "application/*+json" or nothing; parameters do not count.
bool is_json_type(std::string_view content_type) {
  std::string type(trim(content_type.substr(0, content_type.find(';'))));
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(c < 128 ? std::tolower(c) : c); });
  return type.empty() || type == "application/json" ||
         (type.starts_with("application/") && type.ends_with("+json"));
}

}  // namespace

void check_framing(HttpRequest& request, const HttpLimits& limits) {
  if (request.target.size() > limits.max_target_bytes) {
    throw api::errors::uri_too_long(static_cast<std::int64_t>(limits.max_target_bytes));
  }
  check_host(request);
  check_content_length(request);
  check_transfer_coding(request);
  if (!parse_target(request)) throw bad_request_framing("The request's target is not a path.");
}

void check_body_headers(const HttpRequest& request, const HttpLimits& limits) {
  if (request.has("Expect") && !expects_continue(request)) {
    throw api::errors::expectation_failed(request.header("Expect"));
  }
  if (request.method == "POST" && !request.has("Content-Length") && !request.has("Transfer-Encoding")) {
    throw api::errors::length_required();
  }
  const std::string_view length = trim(request.header("Content-Length"));
  if (!length.empty() && std::stoll(std::string(length)) > static_cast<std::int64_t>(limits.max_body_bytes)) {
    throw api::errors::request_too_large(static_cast<std::int64_t>(limits.max_body_bytes));
  }
  if (request.method != "POST") return;
  if (!is_json_type(request.header("Content-Type"))) {
    throw api::errors::unsupported_media_type("The body must be application/json.");
  }
  const std::string_view coding = trim(request.header("Content-Encoding"));
  if (!coding.empty() && !equals_ignoring_case(coding, "identity")) {
    throw api::errors::unsupported_media_type("The body must come without a Content-Encoding.");
  }
}

bool has_body(const HttpRequest& request) {
  const std::string_view length = trim(request.header("Content-Length"));
  return request.has("Transfer-Encoding") || length.find_first_not_of('0') != std::string_view::npos;
}

bool expects_continue(const HttpRequest& request) {
  return request.version >= 11 && equals_ignoring_case(trim(request.header("Expect")), "100-continue");
}

}  // namespace grokd

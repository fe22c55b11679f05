#include "service/access.h"

#include <algorithm>

namespace grokd {
namespace {

bool is_allowed_header(std::string_view name) {
  for (std::string_view allowed :
       {"authorization", "content-type", "x-request-id", "x-api-key", "x-request-timeout"}) {
    if (equals_ignoring_case(name, allowed)) return true;
  }
  return equals_ignoring_case(name.substr(0, 12), "x-stainless-");
}

/// The requested names that are allowed, as they were written.
std::string allowed_headers(std::string_view requested) {
  std::string allowed;
  while (!requested.empty()) {
    const std::size_t comma = std::min(requested.find(','), requested.size());
    const std::string_view name = trim(requested.substr(0, comma));
    requested.remove_prefix(std::min(comma + 1, requested.size()));
    if (!is_allowed_header(name)) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += name;
  }
  return allowed.empty() ? "authorization, content-type, x-request-id" : allowed;
}

}  // namespace

std::string_view presented_key(const HttpRequest& request) {
  const std::string_view authorization = trim(request.header("Authorization"));
  if (equals_ignoring_case(authorization.substr(0, 7), "Bearer ")) return trim(authorization.substr(7));
  return trim(request.header("X-Api-Key"));
}

std::vector<Header> cors_headers(const HttpRequest& request,
                                 const std::vector<std::string>& allowed_origins) {
  const std::string origin(request.header("Origin"));
  const bool allowed = std::any_of(allowed_origins.begin(), allowed_origins.end(),
                                   [&](const std::string& entry) { return entry == "*" || entry == origin; });
  if (origin.empty() || !allowed) return {};
  return {{"Access-Control-Allow-Origin", origin},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
}

std::vector<Header> preflight_headers(const HttpRequest& request) {
  return {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
          {"Access-Control-Allow-Headers", allowed_headers(request.header("Access-Control-Request-Headers"))},
          {"Access-Control-Max-Age", "600"}};
}

}  // namespace grokd

#pragma once
// What a request shows of itself: its API key and the origin of its web page.

#include <string>
#include <string_view>
#include <vector>

#include "service/http_message.h"

namespace grokd {

/// The key of `Authorization: Bearer KEY` or `X-Api-Key: KEY`, "" if there is none.
std::string_view presented_key(const HttpRequest& request);

/// Headers for a web page of that origin; none if it is not allowed.
std::vector<Header> cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);
/// Those that a preflight gets in addition.
std::vector<Header> preflight_headers(const HttpRequest& request);

}  // namespace grokd

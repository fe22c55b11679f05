#pragma once
// Who may ask: API keys and origins of web pages.

#include <string>
#include <string_view>
#include <vector>

#include "service/config.h"
#include "service/http_message.h"

namespace grokd {

/// One key a line; empty lines and lines beginning with "#" do not count. Throws ConfigError naming the file.
std::vector<std::string> read_api_keys(const std::string& file);

/// The key of `Authorization: Bearer KEY` or `X-Api-Key: KEY`, "" if there is none.
std::string_view presented_key(const HttpRequest& request);

/// Compares with every key in time that does not depend on where they differ.
bool is_known_key(std::string_view key, const std::vector<std::string>& keys);

/// Headers for a web page of that origin; none if it is not allowed.
std::vector<Header> cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);
/// Those that a preflight gets in addition.
std::vector<Header> preflight_headers(const HttpRequest& request);

}  // namespace grokd

#pragma once
// One HTTP request and one plain answer as values; no socket, no parser.

#include <string>
#include <string_view>
#include <vector>

namespace grokd {

struct Header {
  std::string name, value;
};

/// ASCII case does not count.
bool equals_ignoring_case(std::string_view a, std::string_view b);
std::string_view trim(std::string_view text);

struct HttpRequest {
  std::string method;
  std::string target;  // as sent
  std::string path;    // decoded; doubled and trailing slashes removed
  std::string query;   // as sent, without "?"
  int version = 11;    // 10 or 11
  bool keep_alive = true;
  std::vector<Header> headers;
  std::string body;

  /// First value of that name, "" if there is none.
  std::string_view header(std::string_view name) const;
  std::vector<std::string_view> all(std::string_view name) const;
  bool has(std::string_view name) const { return !all(name).empty(); }
};

/// Splits the target into path and query. False if a percent escape is broken or the path does not begin with
/// "/".
bool parse_target(HttpRequest& request);

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<Header> headers;
};

HttpResponse json_response(std::string body, int status = 200);

std::string_view reason_phrase(int status);

}  // namespace grokd

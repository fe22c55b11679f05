#include "service/trace_context.h"

namespace grokd {
namespace {

constexpr std::size_t kLength = 55;  // 00-<trace id>-<parent span id>-<flags>

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

int hex_value(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-')
    return std::nullopt;
  const std::string_view version = header.substr(0, 2), flags = header.substr(53, 2);
  if (!is_hex(version) || version == "ff" || !is_hex(flags)) return std::nullopt;
  // Later versions may have more after a dash.
  const bool ends = header.size() == kLength || (version != "00" && header[kLength] == '-');
  const std::string_view trace_id = header.substr(3, 32), span_id = header.substr(36, 16);
  if (!ends || !is_id(trace_id) || !is_id(span_id)) return std::nullopt;
  return TraceContext{std::string(trace_id), std::string(span_id), (hex_value(flags[1]) & 1) != 0};
}

}  // namespace grokd

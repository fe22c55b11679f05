#pragma once
// W3C trace context: what a traceparent header says.

#include <optional>
#include <string>
#include <string_view>

namespace grokd {

struct TraceContext {
  std::string trace_id;        // 32 hexadecimal digits
  std::string parent_span_id;  // 16
  bool sampled = false;        // whoever called keeps this trace
};

/// Nothing unless the header is of a version that can be read (any but ff) and its ids are not all zeros.
std::optional<TraceContext> parse_traceparent(std::string_view header);

}  // namespace grokd

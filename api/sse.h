#pragma once
// Framing of server-sent events. Each function appends whole frames.

#include <cstdint>
#include <string>
#include <string_view>

namespace grokd::api {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kSseData = "data: ";
inline constexpr std::string_view kSseEnd = "\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSsePing = ": ping\n\n";

/// `json` is one line.
void append_sse_event(std::string& out, std::string_view json);
void append_sse_progress(std::string& out, std::int64_t done, std::int64_t total);

}  // namespace grokd::api

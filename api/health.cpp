#include "api/health.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/json_writer.h"

namespace grokd::api {

std::string to_json(const Readiness& readiness) {
  constexpr std::string_view kNames[] = {"ready", "loading", "draining", "stalled"};
  std::string out = R"({"status":)";
  append_string(out, kNames[static_cast<std::size_t>(readiness.status)]);
  out += R"(,"progress":)";
  append_number(out, std::clamp(readiness.progress, 0.0, 1.0));
  out += R"(,"running":)";
  append_integer(out, readiness.running);
  out += R"(,"waiting":)";
  append_integer(out, readiness.waiting);
  out += '}';
  return out;
}

std::string liveness_json(bool alive) { return alive ? R"({"status":"alive"})" : R"({"status":"stalled"})"; }

std::string to_json(const Load& load) {
  const std::pair<std::string_view, std::int64_t> entries[] = {
      {"running", load.running}, {"waiting", load.waiting}, {"waiting_tokens", load.waiting_tokens},
      {"slots", load.slots},     {"kv_used", load.kv_used}, {"kv_total", load.kv_total},
  };
  std::string out;
  for (const auto& [name, value] : entries) {
    out += out.empty() ? '{' : ',';
    append_string(out, name);
    out += ':';
    append_integer(out, value);
  }
  out += '}';
  return out;
}

}  // namespace grokd::api

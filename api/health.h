#pragma once
// Bodies of GET /livez, /readyz (= /health) and /load.

#include <cstdint>
#include <string>

namespace grokd::api {

enum class ReadyStatus { ready, loading, draining, stalled };

struct Readiness {
  ReadyStatus status = ReadyStatus::loading;
  double progress = 0;  // of loading, 0..1
  std::int64_t running = 0, waiting = 0;
};

/// {"status","progress","running","waiting"}
std::string to_json(const Readiness& readiness);

/// {"status":"alive"} or {"status":"stalled"}
std::string liveness_json(bool alive);

struct Load {
  std::int64_t running = 0, waiting = 0, waiting_tokens = 0, slots = 0;
  std::int64_t kv_used = 0, kv_total = 0;  // tokens
};

std::string to_json(const Load& load);

}  // namespace grokd::api

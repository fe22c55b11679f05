#pragma once
// The way into the engine: any thread puts requests in, the engine thread takes them out.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"

namespace grokd {

/// What the engine thread holds.
struct EngineLoad {
  int running = 0, waiting = 0;
  std::int64_t waiting_tokens = 0;
  double service_seconds = 1;  // how long a request holds its slot
};

class Mailbox {
 public:
  explicit Mailbox(const EngineConfig& config) : config_(config) {}

  /// Refused when as many requests are inside as may run and wait, or too many prompt tokens wait.
  std::optional<Refused> offer(Pending&& pending);
  /// Engine thread: moves what came to the end of `mail`; with `wait` sleeps until something came. False:
  /// closed.
  bool take(bool wait, std::vector<Pending>& mail);
  /// Engine thread: replaces what is known of the engine.
  void publish(const EngineLoad& load);
  /// No request is accepted from now on. `failed` goes before `draining`.
  void refuse_all(Rejection reason);
  void close();
  /// The engine's load and the mail together.
  EngineLoad load() const;

 private:
  EngineLoad load_locked() const;
  Refused queue_full(const EngineLoad& load) const;

  const EngineConfig config_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Pending> mail_;
  std::int64_t mail_tokens_ = 0;
  EngineLoad engine_;
  std::optional<Rejection> refusing_;
  bool closed_ = false;
};

}  // namespace grokd

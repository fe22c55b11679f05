#pragma once
// The way into the engine: any thread puts requests in, the engine thread takes them out.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/admission.h"
#include "engine/engine.h"
#include "engine/sequence.h"

namespace grokd {

class Mailbox {
 public:
  explicit Mailbox(const EngineConfig& config) : config_(config) {}

  /// Refused when as many requests are inside as may run and wait, when too many prompt tokens wait, and when
  /// the answer is not expected before the request's deadline.
  std::optional<Refused> offer(Pending&& pending);
  /// Engine thread: moves what came to the end of `mail`; with `wait` sleeps until something came, at most
  /// for `longest`. False: closed.
  bool take(bool wait, std::vector<Pending>& mail, std::optional<std::chrono::milliseconds> longest = {});
  /// Engine thread: replaces what is known of the engine; what it has taken is its own from then on.
  void publish(const EngineLoad& load);
  /// No request is accepted from now on. `failed` goes before `draining`.
  void refuse_all(Rejection reason);
  void close();
  /// The engine's load and the mail together.
  EngineLoad load() const;

 private:
  std::optional<Refused> reason_to_refuse(const Pending& pending) const;
  Refused queue_full(const EngineLoad& load, int tier) const;

  const EngineConfig config_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Pending> mail_;
  EngineLoad load_;  // the engine's, and the mail
  std::optional<Rejection> refusing_;
  bool closed_ = false;
};

}  // namespace grokd

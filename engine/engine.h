#pragma once
// Owns the engine thread: mailbox in, continuous batching over free slots, outputs to sinks.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "engine/model_runner.h"
#include "engine/request.h"
#include "engine/step_planner.h"
#include "engine/tokenizer.h"

namespace grokd {

SpecialTokens special_tokens(const ModelConfig& config);

struct EngineConfig {
  int slots = 16;                   // sequences running at once
  int step_tokens = 256;            // most tokens in one step (prefill chunk + decodes)
  int max_waiting = 256;            // requests waiting for a slot
  int max_waiting_tokens = 262144;  // their prompt tokens
  StepPolicy step = {};
  SpecialTokens special = {};
};

enum class Rejection { queue_full, deadline, draining, failed };

struct Refused {
  Rejection reason;
  double retry_after_seconds = 1;
};

/// A snapshot, taken without waiting for the engine thread.
struct EngineStats {
  int running = 0, waiting = 0;
  std::int64_t waiting_tokens = 0;
  int slots = 0;
  int kv_pages_used = 0, kv_pages_total = 0;
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t proposed_tokens = 0, accepted_tokens = 0;  // of speculation; accepted ones are generated, too
  std::uint64_t preemptions = 0;  // sequences that had to leave their slot to a higher tier
  double last_step_seconds = 0;
  double step_prediction_error = 0;  // running mean of |predicted / measured - 1|
  double seconds_since_progress =
      0;  // since the engine last finished a step while work was pending; 0 when idle
  bool failed = false;
};

/// Counters and times of each step, for metrics. Runs on the engine thread: must not block.
struct StepRecord {
  int tokens = 0, prefill_tokens = 0, sequences = 0;
  double seconds = 0;
  double predicted_seconds = 0;  // 0: not yet known
};
using StepObserver = std::function<void(const StepRecord&)>;

/// Why the engine has failed, once everything that ran has been told. Runs on the engine thread.
using FailureObserver = std::function<void(const std::string& what)>;

/// Move-only; its destructor cancels the request, which frees slot and pages at the next step.
class RequestHandle {
 public:
  RequestHandle() = default;
  explicit RequestHandle(std::shared_ptr<std::atomic<bool>> cancelled) : cancelled_(std::move(cancelled)) {}
  RequestHandle(RequestHandle&&) = default;
  RequestHandle& operator=(RequestHandle&& other) noexcept {
    cancel();
    cancelled_ = std::move(other.cancelled_);
    return *this;
  }
  ~RequestHandle() { cancel(); }
  void cancel() {
    if (cancelled_) cancelled_->store(true, std::memory_order_release);
  }

 private:
  std::shared_ptr<std::atomic<bool>> cancelled_;
};

class Engine {
 public:
  Engine(std::unique_ptr<ModelRunner> runner, const Tokenizer& tokenizer, EngineConfig config,
         StepObserver observer = {}, FailureObserver on_failure = {});
  ~Engine();  // stops at the next step; what is left ends with FinishReason::cancelled
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// From any thread. After a handle was returned the sink is called until a piece with a finish reason
  /// (FinishReason::cancelled once the handle is gone), then it is destroyed. A request that cannot run,
  /// since it exceeds the context or the cache or holds an unknown id, ends with FinishReason::error.
  std::variant<RequestHandle, Refused> submit(Request request, OutputSink sink);
  /// The same, but what is refused stays with the caller.
  std::variant<RequestHandle, Refused> offer(Request& request, OutputSink& sink);
  void drain();               // any thread: no new work; what runs goes on
  EngineStats stats() const;  // any thread
  const RunnerLimits& limits() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

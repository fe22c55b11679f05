#pragma once
// The server's Prometheus metrics. Every label value comes from a closed set. Any thread.

#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace grokd {

/// How a sequence ended, for grokd_request_finished_total.
enum class Ending { stop, length, abort, error, timeout };
std::string_view ending_name(Ending ending);

enum class RejectionReason { queue_full, deadline, draining, failed, loading, key_limit };

class Metrics {
 public:
  /// `vllm_names`: the gauges again under the names that vLLM's dashboards use.
  Metrics(const std::string& model_id, bool vllm_names);
  ~Metrics();

  void count_request(std::string_view route, int status);
  void count_rejection(RejectionReason reason);
  void count_ending(Ending ending);
  /// The times and counts of a sequence's last piece.
  void observe_sequence(const RequestOutput& last_piece);
  void observe_inter_token(double seconds, int tokens);
  void observe_delivery(double seconds);      // of a streamed piece: from the engine to the socket
  void observe_step(const StepRecord& step);  // on the engine thread
  void set_connections(int open);
  void count_traces(int requests, bool sent);

  /// Text format 0.0.4. `stats` null: the model is not loaded.
  std::string text(const EngineStats* stats);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

#pragma once
// What handlers work with, passed by reference; owned by Server.

#include <atomic>
#include <optional>

#include "service/config.h"
#include "service/http_message.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/model_host.h"
#include "service/trace_exporter.h"
#include "service/worker_pool.h"

namespace grokd {

struct App {
  const ServerConfig& config;
  ModelHost& host;
  Metrics& metrics;
  Log& log;
  WorkerPool& workers;
  KeyStore& keys;
  TraceExporter* traces;                // null: off
  std::atomic<bool> not_ready = false;  // /readyz says draining
  std::atomic<bool> draining = false;   // new generation requests are refused

  /// The engine moves while it has work. True while the model loads.
  bool alive() const;
  /// Throws ApiError 503 while loading, when draining and when the engine has failed.
  const LoadedModel& require_model() const;
  /// config.requests with what depends on the model.
  api::RequestLimits request_limits(const LoadedModel& model) const;
  /// Fields that were ignored go to the log at level debug.
  void note_unknown_fields(const RequestRecord& record, int count) const;
  api::ChatRendering rendering(bool add_generation_prompt, bool continue_final_message) const;
  /// The whole request's deadline: the body's timeout, else the header X-Request-Timeout, else the server's
  /// default.
  std::optional<Clock::time_point> deadline_of(const api::GenerationFields& fields,
                                               const HttpRequest& request) const;
};

}  // namespace grokd

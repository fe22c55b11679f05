#include "service/app.h"

#include <algorithm>

#include "api/error.h"
#include "kernels/backend.h"

namespace grokd {
namespace {

constexpr int kDrainingRetrySeconds = 5;

}  // namespace

bool App::alive() const {
  const LoadedModel* model = host.loaded();
  if (!model) return true;
  const EngineStats stats = model->engine->stats();
  return !stats.failed &&
         stats.seconds_since_progress * 1000 <= static_cast<double>(config.stall_limit.count());
}

const LoadedModel& App::require_model() const {
  if (draining) {
    metrics.count_rejection(RejectionReason::draining);
    throw api::errors::shutting_down(kDrainingRetrySeconds);
  }
  const LoadedModel* model = host.loaded();
  if (!model) {
    metrics.count_rejection(RejectionReason::loading);
    throw api::errors::model_loading(host.seconds_to_load());
  }
  return *model;
}

api::RequestLimits App::request_limits(const LoadedModel& model) const {
  api::RequestLimits limits = config.requests;
  limits.vocab_size = model.engine->limits().vocab_size;
  const RunnerLimits& runner = model.engine->limits();
  limits.context = std::min(runner.context, runner.kv_pages * kernels::kPagePositions);
  limits.pad_token = host.config().pad_token;
  limits.constrained_output = true;
  limits.adds_bos = host.config().add_bos;
  return limits;
}

void App::note_unknown_fields(const RequestRecord& record, int count) const {
  if (count == 0) return;
  log.event(LogLevel::debug, "unknown fields", {{"id", record.request_id}, {"count", std::to_string(count)}});
}

api::ChatRendering App::rendering(bool add_generation_prompt, bool continue_final_message) const {
  return {add_generation_prompt, continue_final_message, config.strict_chat};
}

std::optional<Clock::time_point> App::deadline_of(const api::GenerationFields& fields,
                                                  const HttpRequest& request) const {
  std::optional<double> seconds = fields.timeout_seconds;
  if (request.has("X-Request-Timeout")) {
    const double from_header = api::parse_timeout_header(trim(request.header("X-Request-Timeout")));
    if (!seconds) seconds = from_header;
  }
  if (!seconds && config.default_timeout.count() > 0)
    seconds = static_cast<double>(config.default_timeout.count()) / 1000;
  if (!seconds) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
}

}  // namespace grokd

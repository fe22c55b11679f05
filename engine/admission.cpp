#include "engine/admission.h"

#include <algorithm>

namespace grokd {
namespace {

constexpr double kMargin = 1.1;         // predictions are off by so much at times
constexpr double kServiceShare = 0.75;  // of the time left that a request counts as needing at most

std::size_t tier_index(int tier) { return static_cast<std::size_t>(std::clamp(tier, 0, kTiers - 1)); }

/// Of the engine's time, as a share of steps that serve all slots.
double engine_seconds(const EngineLoad& load, const QueuedWork& work) {
  return static_cast<double>(work.prompt_tokens) * load.step.prompt_token_seconds +
         work.answer_tokens * load.step.decode_seconds / load.slots;
}

/// A decode step while others' prompts are fed beside it: for each answer token that the queue is going to
/// have, so many of its prompt tokens go by.
double loaded_step_seconds(const EngineLoad& load) {
  double prompts = 0, answers = 0;
  for (const QueuedWork& work : load.queue) {
    prompts += static_cast<double>(work.prompt_tokens);
    answers += work.answer_tokens;
  }
  if (answers < 1) return load.step.decode_seconds;
  return load.step.decode_seconds + prompts / answers * load.step.prompt_token_seconds * load.slots;
}

}  // namespace

double expected_answer(const Request& request, double answer_share) {
  return std::max(1.0, request.max_tokens * std::min(answer_share, 1.0));
}

double predict_wait(const EngineLoad& load, int tier) {
  double wait = load.first_slot_seconds[tier_index(tier)];
  for (std::size_t i = 0; i <= tier_index(tier); ++i) wait += engine_seconds(load, load.queue[i]);
  return wait;
}

double predict_service(const EngineLoad& load, const Request& request) {
  return static_cast<double>(request.prompt.size()) * load.step.prompt_token_interval +
         expected_answer(request, load.answer_share) * loaded_step_seconds(load);
}

std::optional<double> seconds_too_late(const EngineLoad& load, const Request& request,
                                       Clock::time_point now) {
  if (!request.deadline) return std::nullopt;
  const double left = std::chrono::duration<double>(*request.deadline - now).count();
  const double wait = predict_wait(load, request.tier);
  if (left <= 0 || wait <= 0) return std::nullopt;  // what came too late ends at once, as timed out
  const double need = std::min(predict_service(load, request), kServiceShare * left);
  const double late = kMargin * (wait + need) - left;
  return late > 0 ? std::optional(late) : std::nullopt;
}

}  // namespace grokd

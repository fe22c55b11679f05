#include "engine/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/models/config.h"

namespace grokd {
namespace {

constexpr double kServiceMeanWeight = 0.1;  // of the newest request

std::int64_t prompt_tokens(const Pending& pending) {
  return static_cast<std::int64_t>(pending.request.prompt.size());
}

Abort early_end(const Pending& pending) {
  if (pending.is_cancelled()) return {FinishReason::cancelled, false, {}, false};
  return {FinishReason::length, true, {}, false};
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, const StepPolicy& policy, const AnswerRules& rules,
                     const StepTimeModel& model)
    : limits_(limits),
      rules_(rules),
      cache_(limits.pages, policy.prefix_cache),
      planner_(limits, policy, model) {
  if (limits.step_tokens <= limits.slots || limits.logit_rows < limits.slots) {
    throw ConfigError(std::to_string(limits.slots) + " slots need more than as many tokens a step (" +
                      std::to_string(limits.step_tokens) + ") and as many rows of logits (" +
                      std::to_string(limits.logit_rows) + ")");
  }
  running_.reserve(static_cast<std::size_t>(limits.slots));
}

void Scheduler::add(Pending&& pending) {
  waiting_tokens_ += prompt_tokens(pending);
  const QueueKey key{pending.request.tier, pending.request.priority, arrivals_++};
  waiting_.emplace(key, std::move(pending));
}

Pending Scheduler::leave_queue(Queue::iterator at) {
  Pending pending = std::move(at->second);
  waiting_tokens_ -= prompt_tokens(pending);
  waiting_.erase(at);
  return pending;
}

void Scheduler::end_early(Clock::time_point now) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = std::next(at);
    if (at->second.is_cancelled() || at->second.is_late(now)) {
      const Abort abort = early_end(at->second);
      refuse(leave_queue(at), abort, now);
    }
    at = next;
  }
  for (const auto& sequence : running_) {
    const Pending& pending = sequence->pending();
    if (pending.is_cancelled() || pending.is_late(now)) sequence->abort(early_end(pending), now);
  }
  deliver();
}

void Scheduler::admit(Clock::time_point now) {
  while (running() < limits_.slots && !waiting_.empty()) {
    const auto next = waiting_.begin();
    if (KvPages::needed(Sequence::positions(next->second.request)) > cache_.available()) return;
    running_.push_back(std::make_unique<Sequence>(leave_queue(next), rules_, now));
    cache_.reserve(*running_.back());
  }
}

const Step& Scheduler::plan() {
  look_for_prefixes();
  return planner_.plan(running_);
}

/// Of prompts that begin alike and came together the first computes the common pages, and the others wait.
void Scheduler::look_for_prefixes() {
  for (auto at = running_.begin(); at != running_.end(); ++at) {
    Sequence& sequence = **at;
    if (sequence.prompt_rows_left() == 0 || sequence.has_begun()) continue;
    cache_.find_prefix(sequence);
    sequence.waits_for_prefix = std::any_of(
        running_.begin(), at, [&](const auto& other) { return cache_.computes_next_page(*other, sequence); });
  }
}

void Scheduler::deliver() {
  for (const auto& sequence : running_) {
    cache_.index(*sequence);
    sequence->deliver();
  }
  release_finished();
}

void Scheduler::release_finished() {
  std::erase_if(running_, [this](const std::unique_ptr<Sequence>& sequence) {
    if (!sequence->finished()) return false;
    cache_.release(*sequence);
    service_seconds_ += kServiceMeanWeight * (sequence->seconds_running() - service_seconds_);
    return true;
  });
}

void Scheduler::end_all(const Abort& abort, Clock::time_point now) {
  for (const auto& sequence : running_) sequence->abort(abort, now);
  deliver();
  while (!waiting_.empty()) refuse(leave_queue(waiting_.begin()), abort, now);
}

}  // namespace grokd

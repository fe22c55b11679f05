#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "engine/models/config.h"

namespace grokd {
namespace {

constexpr double kMeanWeight = 0.1;  // of the newest request in running means
constexpr auto kPatience = std::chrono::seconds(60);

std::int64_t prompt_tokens(const Pending& pending) {
  return static_cast<std::int64_t>(pending.request.prompt.size());
}

Abort early_end(const Pending& pending) {
  if (pending.is_cancelled()) return {FinishReason::cancelled, false, {}, false};
  return {FinishReason::length, true, {}, false};
}

std::size_t tier_index(int tier) { return static_cast<std::size_t>(std::clamp(tier, 0, kTiers - 1)); }

int tier_of(const Sequence& sequence) { return sequence.pending().place.tier; }

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
  running_.reserve(static_cast<std::size_t>(limits.slots) + 1);
}

// ---- the queue ----

void Scheduler::add(Pending&& pending) {
  const Request& request = pending.request;
  auto due = pending.submitted + kPatience;
  if (request.deadline) due = std::min(due, *request.deadline);
  pending.place = {request.tier, request.priority, due, arrivals_++};
  pending.expected_answer = expected_answer(request, answer_share_);
  queue_work(pending, 1);
  waiting_.emplace(pending.place, std::move(pending));
}

Pending Scheduler::leave_queue(Queue::iterator at) {
  Pending pending = std::move(at->second);
  waiting_.erase(at);
  queue_work(pending, -1);
  return pending;
}

void Scheduler::queue_work(const Pending& pending, int sign) {
  QueuedWork& queue = queued_[tier_index(pending.request.tier)];
  queue.requests += sign;
  queue.prompt_tokens += sign * prompt_tokens(pending);
  queue.answer_tokens += sign * pending.expected_answer;
  waiting_tokens_ += sign * prompt_tokens(pending);
}

void Scheduler::end_early(Clock::time_point now) {
  const auto must_end = [now](const Pending& pending) {
    return pending.is_cancelled() || pending.is_late(now);
  };
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = std::next(at);
    if (must_end(at->second)) {
      const Abort abort = early_end(at->second);
      refuse(leave_queue(at), abort, now);
    }
    at = next;
  }
  for (auto& [place, sequence] : paused_) {
    if (must_end(sequence->pending())) sequence->abort(early_end(sequence->pending()), now);
  }
  for (const auto& sequence : running_) {
    if (must_end(sequence->pending())) sequence->abort(early_end(sequence->pending()), now);
  }
  deliver();
}

// ---- slots ----

void Scheduler::admit(Clock::time_point now) {
  for (const QueuePlace* next = next_place(); next && can_start(*next); next = next_place()) {
    const QueuePlace place = *next;
    make_room(place);
    start(place, now);
  }
}

const QueuePlace* Scheduler::next_place() const {
  if (waiting_.empty()) return paused_.empty() ? nullptr : &paused_.begin()->first;
  if (paused_.empty()) return &waiting_.begin()->first;
  return std::min(&waiting_.begin()->first, &paused_.begin()->first,
                  [](const QueuePlace* a, const QueuePlace* b) { return *a < *b; });
}

int Scheduler::pages_wanted(const QueuePlace& place) const {
  const auto paused = paused_.find(place);
  if (paused == paused_.end()) return KvPages::needed(Sequence::positions(waiting_.at(place).request));
  return paused->second->pages.empty() ? KvPages::needed(paused->second->positions()) : 0;
}

bool Scheduler::can_start(const QueuePlace& place) const {
  if (running() == limits_.slots && tier_of(*running_.back()) <= place.tier) return false;
  std::size_t pages = static_cast<std::size_t>(cache_.available());
  for (const auto& sequence : running_) pages += tier_of(*sequence) > place.tier ? sequence->pages.size() : 0;
  for (const auto& [other, sequence] : paused_) pages += other.tier > place.tier ? sequence->pages.size() : 0;
  return pages >= static_cast<std::size_t>(pages_wanted(place));
}

/// From the last place up: slots first, then pages of those that have paused, then of those that run.
void Scheduler::make_room(const QueuePlace& place) {
  if (running() == limits_.slots) pause_last();
  while (pages_wanted(place) > cache_.available()) {
    if (release_paused(place.tier)) continue;
    if (running_.empty() || tier_of(*running_.back()) <= place.tier) return;
    pause_last();
  }
}

void Scheduler::pause_last() {
  ++preemptions_;
  const QueuePlace place = running_.back()->pending().place;
  paused_.emplace(place, std::move(running_.back()));
  running_.pop_back();
}

/// Takes the pages of the last one paused that is of a lower tier than this.
bool Scheduler::release_paused(int tier) {
  for (auto at = paused_.rbegin(); at != paused_.rend() && at->first.tier > tier; ++at) {
    if (at->second->pages.empty()) continue;
    cache_.release(*at->second);
    return true;
  }
  return false;
}

void Scheduler::start(const QueuePlace& place, Clock::time_point now) {
  auto sequence = take_sequence(place, now);
  if (sequence->pages.empty() && !cache_.reserve(*sequence)) {
    paused_.emplace(place, std::move(sequence));  // pages that others share were counted more than once
    return;
  }
  const auto at =
      std::upper_bound(running_.begin(), running_.end(), place,
                       [](const QueuePlace& own, const auto& other) { return own < other->pending().place; });
  running_.insert(at, std::move(sequence));
}

std::unique_ptr<Sequence> Scheduler::take_sequence(const QueuePlace& place, Clock::time_point now) {
  if (const auto paused = paused_.find(place); paused != paused_.end()) {
    auto sequence = std::move(paused->second);
    paused_.erase(paused);
    return sequence;
  }
  return std::make_unique<Sequence>(leave_queue(waiting_.find(place)), rules_, now);
}

// ---- steps ----

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
  for (const auto& [place, sequence] : paused_) {
    if (sequence->finished()) sequence->deliver();
  }
  std::erase_if(running_, [this](const auto& sequence) {
    if (sequence->finished()) let_go(*sequence);
    return sequence->finished();
  });
  std::erase_if(paused_, [this](const auto& entry) {
    if (entry.second->finished()) cache_.release(*entry.second);
    return entry.second->finished();
  });
}

void Scheduler::let_go(Sequence& sequence) {
  cache_.release(sequence);
  service_seconds_ += kMeanWeight * (sequence.seconds_running() - service_seconds_);
  const Request& request = sequence.pending().request;
  if (!sequence.ended_by_itself() || request.max_tokens == 0) return;
  const double share = static_cast<double>(sequence.completion_tokens()) / request.max_tokens;
  answer_share_ += kMeanWeight * (share - answer_share_);
}

void Scheduler::end_all(const Abort& abort, Clock::time_point now) {
  for (const auto& sequence : running_) sequence->abort(abort, now);
  for (const auto& [place, sequence] : paused_) sequence->abort(abort, now);
  deliver();
  while (!waiting_.empty()) refuse(leave_queue(waiting_.begin()), abort, now);
}

// ---- what is to come ----

EngineLoad Scheduler::load() const {
  EngineLoad load{running(), waiting(), waiting_tokens_, limits_.slots,   queued_,
                  {},        {},        answer_share_,   service_seconds_};
  std::int64_t positions = 0;
  for (const auto& sequence : running_) positions += sequence->next_position();
  const int rows = std::clamp(running() + waiting() + 1, 1, limits_.slots);
  load.step = planner_.forecast(rows, static_cast<int>(positions / std::max(running(), 1)));
  for (const auto& [place, sequence] : paused_) {
    QueuedWork& queue = load.queue[tier_index(place.tier)];
    ++queue.requests;
    queue.prompt_tokens += sequence->prompt_rows_left();
    queue.answer_tokens += sequence->expected_tokens_left();
  }
  for (int tier = 0; tier < kTiers; ++tier) {
    load.first_slot_seconds[tier_index(tier)] = first_slot_seconds(tier, load.step);
  }
  return load;
}

/// Until the first of those that run is expected to end; none has to where a lower tier can be made to pause.
double Scheduler::first_slot_seconds(int tier, const StepForecast& step) const {
  if (running() < limits_.slots || tier_of(*running_.back()) > tier) return 0;
  double first = std::numeric_limits<double>::infinity();
  for (const auto& sequence : running_) {
    const double left = sequence->prompt_rows_left() * step.prompt_token_interval +
                        sequence->expected_tokens_left() * step.decode_seconds;
    first = std::min(first, left);
  }
  return first;
}

}  // namespace grokd

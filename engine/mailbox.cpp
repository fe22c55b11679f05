#include "engine/mailbox.h"

#include <algorithm>

namespace grokd {
namespace {

constexpr double kMaxRetrySeconds = 600;

void count(EngineLoad& load, const Pending& pending) {
  const Request& request = pending.request;
  const auto tokens = static_cast<std::int64_t>(request.prompt.size());
  ++load.waiting;
  load.waiting_tokens += tokens;
  QueuedWork& queue = load.queue[static_cast<std::size_t>(std::clamp(request.tier, 0, kTiers - 1))];
  ++queue.requests;
  queue.prompt_tokens += tokens;
  queue.answer_tokens += expected_answer(request, load.answer_share);
}

}  // namespace

EngineLoad Mailbox::load() const {
  const std::lock_guard lock(mutex_);
  return load_;
}

/// To come back when what waits now will have had its slot.
Refused Mailbox::queue_full(const EngineLoad& load, int tier) const {
  const double rounds = static_cast<double>(load.waiting + 1) / config_.slots;
  const bool known = load.step.decode_seconds > 0;
  const double seconds = known ? predict_wait(load, tier) : load.service_seconds * rounds;
  return {Rejection::queue_full, std::clamp(seconds, 1.0, kMaxRetrySeconds)};
}

std::optional<Refused> Mailbox::reason_to_refuse(const Pending& pending) const {
  const Request& request = pending.request;
  if (refusing_) return Refused{*refusing_};
  const auto tokens = static_cast<std::int64_t>(request.prompt.size());
  const bool too_many = load_.running + load_.waiting >= config_.slots + config_.max_waiting;
  const bool too_long = load_.waiting > 0 && load_.waiting_tokens + tokens > config_.max_waiting_tokens;
  if (too_many || too_long) return queue_full(load_, request.tier);
  const auto late = seconds_too_late(load_, request, pending.submitted);
  if (!late) return std::nullopt;
  return Refused{Rejection::deadline, std::clamp(*late, 1.0, kMaxRetrySeconds)};
}

std::optional<Refused> Mailbox::offer(Pending&& pending) {
  {
    const std::lock_guard lock(mutex_);
    if (auto refused = reason_to_refuse(pending)) return refused;
    count(load_, pending);
    mail_.push_back(std::move(pending));
  }
  came_.notify_one();
  return std::nullopt;
}

bool Mailbox::take(bool wait, std::vector<Pending>& mail, std::optional<std::chrono::milliseconds> longest) {
  std::unique_lock lock(mutex_);
  const auto something = [this] { return closed_ || !mail_.empty(); };
  if (wait && longest) came_.wait_for(lock, *longest, something);
  if (wait && !longest) came_.wait(lock, something);
  std::move(mail_.begin(), mail_.end(), std::back_inserter(mail));
  mail_.clear();
  return !closed_;
}

void Mailbox::publish(const EngineLoad& load) {
  const std::lock_guard lock(mutex_);
  load_ = load;
  for (const Pending& pending : mail_) count(load_, pending);
}

void Mailbox::refuse_all(Rejection reason) {
  const std::lock_guard lock(mutex_);
  if (refusing_ != Rejection::failed) refusing_ = reason;
}

void Mailbox::close() {
  {
    const std::lock_guard lock(mutex_);
    refusing_ = Rejection::failed;
    closed_ = true;
  }
  came_.notify_one();
}

}  // namespace grokd

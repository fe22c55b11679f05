#include "engine/mailbox.h"

#include <algorithm>

namespace grokd {
namespace {

constexpr double kMaxRetrySeconds = 600;

}  // namespace

EngineLoad Mailbox::load_locked() const {
  EngineLoad load = engine_;
  load.waiting += static_cast<int>(mail_.size());
  load.waiting_tokens += mail_tokens_;
  return load;
}

EngineLoad Mailbox::load() const {
  const std::lock_guard lock(mutex_);
  return load_locked();
}

Refused Mailbox::queue_full(const EngineLoad& load) const {
  const double rounds = static_cast<double>(load.waiting + 1) / config_.slots;
  return {Rejection::queue_full, std::clamp(load.service_seconds * rounds, 1.0, kMaxRetrySeconds)};
}

std::optional<Refused> Mailbox::offer(Pending&& pending) {
  const auto tokens = static_cast<std::int64_t>(pending.request.prompt.size());
  {
    const std::lock_guard lock(mutex_);
    if (refusing_) return Refused{*refusing_};
    const EngineLoad load = load_locked();
    const bool too_many = load.running + load.waiting >= config_.slots + config_.max_waiting;
    const bool too_long = load.waiting > 0 && load.waiting_tokens + tokens > config_.max_waiting_tokens;
    if (too_many || too_long) return queue_full(load);
    mail_tokens_ += tokens;
    mail_.push_back(std::move(pending));
  }
  came_.notify_one();
  return std::nullopt;
}

bool Mailbox::take(bool wait, std::vector<Pending>& mail) {
  std::unique_lock lock(mutex_);
  if (wait) came_.wait(lock, [this] { return closed_ || !mail_.empty(); });
  engine_ = load_locked();
  std::move(mail_.begin(), mail_.end(), std::back_inserter(mail));
  mail_.clear();
  mail_tokens_ = 0;
  return !closed_;
}

void Mailbox::publish(const EngineLoad& load) {
  const std::lock_guard lock(mutex_);
  engine_ = load;
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

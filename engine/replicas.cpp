#include "engine/replicas.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

namespace grokd {
namespace {

/// Pages of all replicas' caches, twice: what has just been given up may be asked for again.
std::size_t pages_to_remember(const std::vector<std::unique_ptr<Engine>>& engines) {
  return 2 * engines.size() * static_cast<std::size_t>(engines[0]->limits().kv_pages);
}

}  // namespace

std::vector<Digest> PrefixAffinity::pages_of(const Request& request) const {
  const std::string& salt = request.cache_salt;
  Digest before = sip_hash(key_, std::as_bytes(std::span(salt.data(), salt.size())));
  std::vector<Digest> pages;
  const std::span<const TokenId> prompt(request.prompt);
  constexpr std::size_t kPage = kernels::kPagePositions;
  for (std::size_t end = kPage; end <= prompt.size(); end += kPage) {
    before = sip_hash(key_, std::as_bytes(std::span(&before, 1)),
                      std::as_bytes(prompt.subspan(end - kPage, kPage)));
    pages.push_back(before);
  }
  return pages;
}

int PrefixAffinity::find(const Request& request) {
  const std::vector<Digest> pages = pages_of(request);
  const std::lock_guard lock(mutex_);
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
    if (const auto found = pages_.find(*page); found != pages_.end()) return found->second->replica;
  }
  return -1;
}

void PrefixAffinity::remember(const Request& request, int replica) {
  const std::vector<Digest> pages = pages_of(request);
  const std::lock_guard lock(mutex_);
  for (const Digest& digest : pages) {
    if (const auto found = pages_.find(digest); found != pages_.end()) {
      recent_.erase(found->second);
      pages_.erase(found);
    }
    recent_.push_front({digest, replica});
    pages_.emplace(digest, recent_.begin());
  }
  for (; recent_.size() > most_pages_; recent_.pop_back()) pages_.erase(recent_.back().digest);
}

Replicas::Replicas(std::vector<std::unique_ptr<Engine>> engines)
    : engines_(std::move(engines)), affinity_(pages_to_remember(engines_)) {}

Replicas::Replicas(std::unique_ptr<Engine> engine)
    : Replicas([&] {
        std::vector<std::unique_ptr<Engine>> one;
        one.push_back(std::move(engine));
        return one;
      }()) {}

std::vector<int> Replicas::order(const Request& request) {
  std::vector<int> load;
  for (const auto& engine : engines_) {
    const EngineStats stats = engine->stats();
    load.push_back(stats.running + stats.waiting);
  }
  std::vector<int> order(engines_.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + turn_++ % order.size(), order.end());
  const auto less = [&](int a, int b) {
    return load[static_cast<std::size_t>(a)] < load[static_cast<std::size_t>(b)];
  };
  std::stable_sort(order.begin(), order.end(), less);
  const int known = affinity_.find(request);
  if (known < 0) return order;
  const int margin = std::max(1, engines_[0]->stats().slots / 4);
  const bool free_enough =
      load[static_cast<std::size_t>(known)] <= load[static_cast<std::size_t>(order[0])] + margin;
  if (free_enough) std::rotate(order.begin(), std::find(order.begin(), order.end(), known), order.end());
  return order;
}

std::variant<RequestHandle, Refused> Replicas::submit(Request request, OutputSink sink) {
  if (engines_.size() == 1) return engines_[0]->submit(std::move(request), std::move(sink));
  std::optional<Refused> soonest;
  for (const int replica : order(request)) {
    affinity_.remember(request, replica);  // before it is moved away; if refused, the next one's word counts
    auto outcome = engines_[static_cast<std::size_t>(replica)]->offer(request, sink);
    const Refused* refused = std::get_if<Refused>(&outcome);
    if (!refused) return outcome;
    if (!soonest || refused->retry_after_seconds < soonest->retry_after_seconds) soonest = *refused;
  }
  return *soonest;
}

void Replicas::drain() {
  for (const auto& engine : engines_) engine->drain();
}

EngineStats Replicas::stats() const {
  EngineStats all = engines_[0]->stats();
  for (std::size_t i = 1; i < engines_.size(); ++i) {
    const EngineStats one = engines_[i]->stats();
    all.running += one.running;
    all.waiting += one.waiting;
    all.waiting_tokens += one.waiting_tokens;
    all.slots += one.slots;
    all.kv_pages_used += one.kv_pages_used;
    all.kv_pages_total += one.kv_pages_total;
    all.steps += one.steps;
    all.prompt_tokens += one.prompt_tokens;
    all.generated_tokens += one.generated_tokens;
    all.proposed_tokens += one.proposed_tokens;
    all.accepted_tokens += one.accepted_tokens;
    all.preemptions += one.preemptions;
    all.last_step_seconds = std::max(all.last_step_seconds, one.last_step_seconds);
    all.step_prediction_error = std::max(all.step_prediction_error, one.step_prediction_error);
    all.seconds_since_progress = std::max(all.seconds_since_progress, one.seconds_since_progress);
    all.failed = all.failed || one.failed;
  }
  return all;
}

}  // namespace grokd

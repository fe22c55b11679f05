#pragma once
// Which requests run, and what the next step feeds of each.

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "engine/kv_cache_manager.h"
#include "engine/sequence.h"
#include "engine/step_planner.h"
#include "engine/step_time.h"

namespace grokd {

class Scheduler {
 public:
  /// `model` is learned by the caller and must outlive the scheduler.
  Scheduler(const SchedulerLimits& limits, const StepPolicy& policy, const AnswerRules& rules,
            const StepTimeModel& model);

  /// Into the queue: by tier, then priority, then as they came.
  void add(Pending&& pending);
  /// Ends what was cancelled or is past its deadline, waiting or running; its slot and pages are free at
  /// once.
  void end_early(Clock::time_point now);
  /// From the queue into free slots, strictly in order, while the pages for the worst case are free.
  void admit(Clock::time_point now);
  const Step& plan();
  /// After the results of a step were accepted: hands out new text and lets go of the sequences that have
  /// finished.
  void deliver();
  /// Ends everything, waiting and running.
  void end_all(const Abort& abort, Clock::time_point now);

  bool busy() const { return !running_.empty() || !waiting_.empty(); }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  std::int64_t waiting_tokens() const { return waiting_tokens_; }
  const KvPages& pages() const { return cache_.pages(); }
  /// How long a request holds its slot: a running mean over the last ones.
  double service_seconds() const { return service_seconds_; }

 private:
  using QueueKey = std::tuple<int, int, std::uint64_t>;  // tier, priority, arrival
  using Queue = std::map<QueueKey, Pending>;

  Pending leave_queue(Queue::iterator at);
  void look_for_prefixes();
  void release_finished();

  const SchedulerLimits limits_;
  const AnswerRules& rules_;
  KvCacheManager cache_;
  Queue waiting_;
  std::uint64_t arrivals_ = 0;
  std::int64_t waiting_tokens_ = 0;
  std::vector<std::unique_ptr<Sequence>> running_;  // in the order of admission
  StepPlanner planner_;
  double service_seconds_ = 1;
};

}  // namespace grokd

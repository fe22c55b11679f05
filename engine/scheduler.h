#pragma once
// Which requests run.

#include <map>
#include <memory>
#include <vector>

#include "engine/admission.h"
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

  /// Into the queue: by tier, then priority, then by what is due first, then as they came. A request is due
  /// at its deadline, but a minute after it came at the latest, so that none is overtaken for ever.
  void add(Pending&& pending);
  /// Ends what was cancelled or is past its deadline, waiting, paused or running; its slot and pages are free
  /// at once.
  void end_early(Clock::time_point now);
  /// From the queue into free slots, strictly in order, while the pages for the worst case are free. A higher
  /// tier takes the slot of a lower one, which pauses: it keeps its pages and goes on where it was, unless
  /// the pages are needed too; then it computes them again.
  void admit(Clock::time_point now);
  const Step& plan();
  /// After the results of a step were accepted: hands out new text and lets go of the sequences that have
  /// finished.
  void deliver();
  /// Ends everything.
  void end_all(const Abort& abort, Clock::time_point now);

  bool busy() const { return !running_.empty() || waiting() > 0; }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size() + paused_.size()); }
  std::int64_t waiting_tokens() const { return waiting_tokens_; }
  std::uint64_t preemptions() const { return preemptions_; }
  const KvPages& pages() const { return cache_.pages(); }
  EngineLoad load() const;

 private:
  using Queue = std::map<QueuePlace, Pending>;
  using Paused = std::map<QueuePlace, std::unique_ptr<Sequence>>;

  Pending leave_queue(Queue::iterator at);
  void queue_work(const Pending& pending, int sign);
  const QueuePlace* next_place() const;
  int pages_wanted(const QueuePlace& place) const;
  bool can_start(const QueuePlace& place) const;
  void make_room(const QueuePlace& place);
  void start(const QueuePlace& place, Clock::time_point now);
  std::unique_ptr<Sequence> take_sequence(const QueuePlace& place, Clock::time_point now);
  void pause_last();
  bool release_paused(int tier);
  void look_for_prefixes();
  void let_go(Sequence& sequence);
  double first_slot_seconds(int tier, const StepForecast& step) const;

  const SchedulerLimits limits_;
  const AnswerRules& rules_;
  KvCacheManager cache_;
  Queue waiting_;
  Paused paused_;  // had a slot, and will have one again
  std::uint64_t arrivals_ = 0, preemptions_ = 0;
  std::int64_t waiting_tokens_ = 0;
  std::array<QueuedWork, kTiers> queued_{};         // of waiting_
  std::vector<std::unique_ptr<Sequence>> running_;  // by their places
  StepPlanner planner_;
  double service_seconds_ = 1, answer_share_ = 1;
};

}  // namespace grokd

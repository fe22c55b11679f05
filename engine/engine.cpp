#include "engine/engine.h"

#include <algorithm>
#include <thread>

#include "engine/mailbox.h"
#include "engine/scheduler.h"

namespace grokd {
namespace {

using kernels::SampledToken;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

SchedulerLimits scheduler_limits(const EngineConfig& config, const RunnerLimits& runner) {
  return {std::min(config.slots, runner.max_sequences), std::min(config.step_tokens, runner.max_batch_tokens),
          runner.max_logit_rows, runner.kv_pages};
}

EngineConfig within(EngineConfig config, const RunnerLimits& runner) {
  config.slots = std::min(config.slots, runner.max_sequences);
  return config;
}

/// Results of a step's rows of logits, in storage that is kept.
class StepResults {
 public:
  std::span<SampledToken> prepare(const Step& step) {
    std::size_t top = 0;
    for (const auto& share : step.shares) top += top_entries(share);
    sampled_.assign(step.batch.logit_rows.size(), {});
    top_.resize(top);
    std::span<TokenLogprob> rest = top_;
    for (const auto& share : step.shares) {
      const auto width = static_cast<std::size_t>(share.sequence->top_logprobs());
      for (auto& sampled : of(share)) {
        sampled.top = rest.first(width);
        rest = rest.subspan(width);
      }
    }
    return sampled_;
  }
  std::span<SampledToken> of(const StepShare& share) {
    return std::span(sampled_).subspan(static_cast<std::size_t>(share.first_logit_row),
                                       static_cast<std::size_t>(share.logit_rows));
  }

 private:
  static std::size_t top_entries(const StepShare& share) {
    return static_cast<std::size_t>(share.logit_rows) *
           static_cast<std::size_t>(share.sequence->top_logprobs());
  }
  std::vector<SampledToken> sampled_;
  std::vector<TokenLogprob> top_;
};

/// What `stats` reads without the engine thread.
struct Counters {
  std::atomic<int> pages_used{0};
  std::atomic<std::uint64_t> steps{0}, prompt_tokens{0}, generated_tokens{0}, proposed_tokens{0},
      accepted_tokens{0}, preemptions{0};
  std::atomic<double> last_step_seconds{0}, step_prediction_error{0};
  std::atomic<Clock::rep> progress{0};  // when a step ended or work came after a pause
  std::atomic<bool> idle{true}, failed{false};
};

}  // namespace

class Engine::Impl {
 public:
  Impl(std::unique_ptr<ModelRunner> runner, const Tokenizer& tokenizer, EngineConfig config,
       StepObserver observer, FailureObserver on_failure)
      : runner_(std::move(runner)),
        config_(within(config, runner_->limits())),
        observer_(std::move(observer)),
        on_failure_(std::move(on_failure)),
        rules_{tokenizer, config.special,
               AnswerMasks(runner_->limits().vocab_size, tokenizer.vocab_size(), config.special)},
        step_time_(runner_->limits().experts, runner_->limits().experts_per_token),
        scheduler_(scheduler_limits(config_, runner_->limits()), config_.step, rules_, step_time_),
        mailbox_(config_),
        thread_([this] { loop(); }) {}

  ~Impl() {
    mailbox_.close();
    thread_.join();
  }

  std::variant<RequestHandle, Refused> offer(Request& request, OutputSink& sink);
  void drain() { mailbox_.refuse_all(Rejection::draining); }
  EngineStats stats() const;
  const RunnerLimits& limits() const { return runner_->limits(); }

 private:
  void loop();
  bool turn();
  void take_in(Clock::time_point now);
  std::string problem(const Request& request) const;
  void run(const Step& step, Clock::time_point begin);
  void accept(const StepShare& share, Clock::time_point now);
  void observe(const Step& step, double seconds);
  void fail(const std::string& what);
  void end_all(const Abort& abort);
  void publish();
  void mark_progress(Clock::time_point now) { counters_.progress = now.time_since_epoch().count(); }

  const std::unique_ptr<ModelRunner> runner_;
  const EngineConfig config_;
  const StepObserver observer_;
  const FailureObserver on_failure_;
  const AnswerRules rules_;
  Counters counters_;
  StepTimeModel step_time_;  // engine thread only, as is all below but the mailbox
  Scheduler scheduler_;
  std::vector<Pending> mail_;
  StepResults results_;
  Clock::time_point last_step_end_;  // or when work came after a pause
  Mailbox mailbox_;
  std::thread thread_;  // last: it uses everything above
};

std::variant<RequestHandle, Refused> Engine::Impl::offer(Request& request, OutputSink& sink) {
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  RequestHandle handle(cancelled);
  Pending pending{std::move(request), std::move(sink), std::move(cancelled), Clock::now()};
  if (const auto refused = mailbox_.offer(std::move(pending))) {  // then it has not been moved from
    request = std::move(pending.request);
    sink = std::move(pending.sink);
    return *refused;
  }
  return handle;
}

void Engine::Impl::loop() {
  try {
    while (turn()) {
    }
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("unknown failure");
  }
  while (mailbox_.take(true, mail_))
    mail_.clear();  // failed: nothing is accepted any more, waits for the end
  end_all({FinishReason::cancelled, false, {}, false});
}

bool Engine::Impl::turn() {
  const bool idle = !scheduler_.busy();
  counters_.idle = idle;
  if (!mailbox_.take(idle, mail_, runner_->keep_alive_interval())) return false;
  if (idle && mail_.empty()) runner_->keep_alive();
  const auto now = Clock::now();
  if (idle) {
    mark_progress(now);
    last_step_end_ = now;
  }
  counters_.idle = false;
  take_in(now);
  scheduler_.end_early(now);
  scheduler_.admit(now);
  publish();
  const Step& step = scheduler_.plan();
  if (step.batch.tokens() > 0) {
    run(step, now);
  } else {
    last_step_end_ = now;
  }
  scheduler_.deliver();
  publish();
  return true;
}

void Engine::Impl::take_in(Clock::time_point now) {
  for (auto& pending : mail_) {
    if (auto what = problem(pending.request); what.empty()) {
      scheduler_.add(std::move(pending));
    } else {
      refuse(std::move(pending), {FinishReason::error, false, std::move(what), true}, now);
    }
  }
  mail_.clear();
}

std::string Engine::Impl::problem(const Request& request) const {
  const RunnerLimits& limits = runner_->limits();
  const auto unknown = [&](TokenId id) { return id < 0 || id >= limits.vocab_size; };
  if (request.prompt.empty()) return "the prompt is empty";
  if (request.max_tokens < 0) return "max_tokens is negative";
  if (static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens > limits.context) {
    return "prompt and max_tokens exceed the context of " + std::to_string(limits.context) + " tokens";
  }
  if (KvPages::needed(Sequence::positions(request)) > limits.kv_pages) {
    return "prompt and max_tokens exceed the key-value cache";
  }
  if (std::any_of(request.prompt.begin(), request.prompt.end(), unknown)) {
    return "the prompt has an id that is not in the vocabulary";
  }
  return {};
}

void Engine::Impl::run(const Step& step, Clock::time_point begin) {
  runner_->run(step.batch, results_.prepare(step));
  const auto now = Clock::now();
  for (const auto& share : step.shares) accept(share, now);
  mark_progress(now);
  observe(step, seconds_between(begin, now));
  // What sequences wait for and promises are made of: from step to step, with what lies between.
  step_time_.observe(step.work, seconds_between(last_step_end_, now));
  last_step_end_ = now;
  counters_.step_prediction_error = step_time_.relative_error();
}

void Engine::Impl::accept(const StepShare& share, Clock::time_point now) {
  const int before = share.sequence->completion_tokens();
  share.sequence->accept(results_.of(share), now);
  const int drawn = share.sequence->completion_tokens() - before;
  counters_.generated_tokens += static_cast<std::uint64_t>(drawn);
  if (share.prefill || share.rows == 1) return;
  counters_.proposed_tokens += static_cast<std::uint64_t>(share.rows - 1);
  counters_.accepted_tokens += static_cast<std::uint64_t>(std::max(drawn - 1, 0));
}

void Engine::Impl::observe(const Step& step, double seconds) {
  StepRecord record{step.batch.tokens(), 0, static_cast<int>(step.shares.size()), seconds,
                    step_time_.predict(step.work)};
  for (const auto& share : step.shares) record.prefill_tokens += share.prefill ? share.rows : 0;
  ++counters_.steps;
  counters_.prompt_tokens += static_cast<std::uint64_t>(record.prefill_tokens);
  counters_.last_step_seconds = seconds;
  if (observer_) observer_(record);
}

/// The cache is undefined now: nothing that ran can go on.
void Engine::Impl::fail(const std::string& what) {
  counters_.failed = true;
  mailbox_.refuse_all(Rejection::failed);
  end_all({FinishReason::error, false, what, false});
  if (on_failure_) on_failure_(what);
}

void Engine::Impl::end_all(const Abort& abort) {
  const auto now = Clock::now();
  mailbox_.take(false, mail_);
  scheduler_.end_all(abort, now);
  for (auto& pending : mail_) refuse(std::move(pending), abort, now);
  mail_.clear();
  counters_.idle = true;
  publish();
}

void Engine::Impl::publish() {
  counters_.pages_used = scheduler_.pages().used();
  counters_.preemptions = scheduler_.preemptions();
  mailbox_.publish(scheduler_.load());
}

EngineStats Engine::Impl::stats() const {
  EngineStats stats;
  const EngineLoad load = mailbox_.load();
  stats.running = load.running;
  stats.waiting = load.waiting;
  stats.waiting_tokens = load.waiting_tokens;
  stats.slots = config_.slots;
  stats.kv_pages_used = counters_.pages_used;
  stats.kv_pages_total = runner_->limits().kv_pages;
  stats.steps = counters_.steps;
  stats.prompt_tokens = counters_.prompt_tokens;
  stats.generated_tokens = counters_.generated_tokens;
  stats.proposed_tokens = counters_.proposed_tokens;
  stats.accepted_tokens = counters_.accepted_tokens;
  stats.preemptions = counters_.preemptions;
  stats.last_step_seconds = counters_.last_step_seconds;
  stats.step_prediction_error = counters_.step_prediction_error;
  stats.failed = counters_.failed;
  if (!counters_.idle) {
    const Clock::time_point progress{Clock::duration(counters_.progress.load())};
    stats.seconds_since_progress = std::max(0.0, seconds_between(progress, Clock::now()));
  }
  return stats;
}

Engine::Engine(std::unique_ptr<ModelRunner> runner, const Tokenizer& tokenizer, EngineConfig config,
               StepObserver observer, FailureObserver on_failure)
    : impl_(std::make_unique<Impl>(std::move(runner), tokenizer, config, std::move(observer),
                                   std::move(on_failure))) {}

Engine::~Engine() = default;

std::variant<RequestHandle, Refused> Engine::submit(Request request, OutputSink sink) {
  return impl_->offer(request, sink);
}

std::variant<RequestHandle, Refused> Engine::offer(Request& request, OutputSink& sink) {
  return impl_->offer(request, sink);
}

void Engine::drain() { impl_->drain(); }

EngineStats Engine::stats() const { return impl_->stats(); }

const RunnerLimits& Engine::limits() const { return impl_->limits(); }

}  // namespace grokd

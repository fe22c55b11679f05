#include "engine/process_runner.h"

#include <algorithm>
#include <thread>

#include "engine/handshake.h"
#include "engine/rank_model.h"
#include "engine/step_message.h"

namespace grokd {
namespace {

using kernels::ProcessGroup;
using kernels::Words;

/// The cores are shared out over the ranks of a host.
RunnerOptions of_process(RunnerOptions options) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (options.cpu.threads == 0) options.cpu.threads = std::max(1, cores / options.processes->ranks_here());
  return options;
}

class ProcessRunner final : public ModelRunner {
 public:
  ProcessRunner(const ModelSource& source, const RunnerOptions& options, const ProgressSink& progress)
      : group_(options.processes), model_(source, options, *group_, progress) {
    message_.reserve(longest_step_message(limits()));
    group_->gather("loaded", ProcessGroup::Wait::forever);
  }

  ~ProcessRunner() override {
    try {
      order(Order::end);
      group_->leave();
    } catch (const kernels::GroupBroken&) {
      // The launcher ends the others.
    }
  }

  const RunnerLimits& limits() const override { return model_.limits(); }

  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    write_step(batch, message_);
    group_->send(message_);
    model_.run(batch, sampled);
  }

  std::optional<std::chrono::milliseconds> keep_alive_interval() const override {
    return group_->timeout() / 4;
  }

  void keep_alive() override {
    order(Order::keep_alive);
    group_->gather("", ProcessGroup::Wait::bounded);
  }

 private:
  void order(Order what) {
    write_order(what, message_);
    group_->send(message_);
  }

  const std::shared_ptr<ProcessGroup> group_;
  RankModel model_;
  Words message_;
};

}  // namespace

std::unique_ptr<ModelRunner> lead_processes(const ModelSource& source, RunnerOptions options,
                                            const ProgressSink& progress) {
  options = of_process(std::move(options));
  shake_hands(source, options);
  return std::make_unique<ProcessRunner>(source, options, progress);
}

void follow_process(const ModelSource& source, RunnerOptions options) {
  options = of_process(std::move(options));
  shake_hands(source, options);
  ProcessGroup& group = *options.processes;
  RankModel model(source, options, group, {});
  group.gather("loaded", ProcessGroup::Wait::forever);
  const std::size_t longest = longest_step_message(model.limits());
  Words message;
  SteppedBatch step;
  for (auto wait = ProcessGroup::Wait::forever;; wait = ProcessGroup::Wait::bounded) {
    group.receive(message, longest, wait);
    switch (read_order(message)) {
      case Order::end:
        return group.leave();
      case Order::keep_alive:
        group.gather("", ProcessGroup::Wait::bounded);
        break;
      case Order::step:
        read_step(message, step);
        model.run(step.batch, {});
    }
  }
}

}  // namespace grokd

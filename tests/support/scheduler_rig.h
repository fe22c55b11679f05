#pragma once
// A scheduler over the fake runner whose steps are run by hand on a simulated clock.

#include <functional>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "tests/support/fake_runner.h"
#include "tests/support/fake_tokenizer.h"

namespace grokd::test {

using Flag = std::shared_ptr<std::atomic<bool>>;

/// What became of a request, named by the first token of its prompt.
struct Ended {
  TokenId name = 0;
  RequestOutput last;
  std::vector<TokenId> ids;
};

struct SchedulerRig {
  explicit SchedulerRig(SchedulerLimits limits, Script script = answer_with(std::vector<TokenId>(1000, 70)),
                        StepPolicy policy = {.itl_target_seconds = 0})
      : runner(runner_limits(limits, tokenizer.vocab_size()), std::move(script)),
        scheduler(limits, policy, rules, model) {}

  Flag add(Request request, std::function<void(const RequestOutput&)> on_piece = {}) {
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    auto ids = std::make_shared<std::vector<TokenId>>();
    const TokenId name = request.prompt[0];
    auto sink = [this, name, ids, on_piece = std::move(on_piece)](RequestOutput&& piece) {
      ids->insert(ids->end(), piece.new_ids.begin(), piece.new_ids.end());
      if (on_piece) on_piece(piece);
      if (piece.finish != FinishReason::none) ended.push_back({name, std::move(piece), *ids});
    };
    scheduler.add({std::move(request), std::move(sink), cancelled, now});
    return cancelled;
  }
  Flag add(TokenId name, int prompt, int max_tokens) {
    Request request;
    request.prompt = std::vector<TokenId>(static_cast<std::size_t>(prompt), name);
    request.max_tokens = max_tokens;
    return add(std::move(request));
  }

  /// One turn of the engine; the step it ran. The clock goes on by what the step takes.
  const Step& turn() {
    scheduler.end_early(now);
    scheduler.admit(now);
    const Step& step = scheduler.plan();
    rows.clear();
    if (step.batch.tokens() > 0) run(step);
    scheduler.deliver();
    return step;
  }
  /// Until nothing is left; false if that takes more than `turns`.
  bool finish(int turns) {
    for (; turns > 0 && scheduler.busy(); --turns) turn();
    return !scheduler.busy();
  }
  /// Names in the order in which they ended.
  std::vector<TokenId> order() const {
    std::vector<TokenId> names;
    for (const auto& one : ended) names.push_back(one.name);
    return names;
  }
  void advance(double by) {
    now += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(by));
  }

  static RunnerLimits runner_limits(const SchedulerLimits& limits, int vocab_size) {
    return {vocab_size, 4096, limits.step_tokens, limits.slots, limits.logit_rows, limits.pages};
  }

  Clock::time_point now{std::chrono::hours(1)};
  std::function<double(const StepWork&)> seconds = [](const StepWork&) { return 1e-3; };
  FakeTokenizer tokenizer;
  AnswerRules rules{tokenizer, {}, AnswerMasks(tokenizer.vocab_size(), tokenizer.vocab_size(), {})};
  StepTimeModel model{8, 2};
  FakeRunner runner;
  std::vector<Ended> ended;
  std::vector<std::pair<TokenId, int>> rows;  // of the last step: whose, how many
  double step_seconds = 0;                    // of the last step
  StepWork decodes;                           // its rows that decode
  int prefill_rows = 0, prefill_left = 0;     // its rows of prompts; those left of the same prompts
  Scheduler scheduler;

 private:
  void run(const Step& step) {
    std::vector<kernels::SampledToken> sampled(step.batch.logit_rows.size());
    runner.run(step.batch, sampled);
    step_seconds = seconds(step.work);
    advance(step_seconds);
    decodes = {};
    prefill_rows = prefill_left = 0;
    for (const auto& share : step.shares) {
      if (!share.prefill) decodes.add_rows(1, share.sequence->next_position() - 1, 1);
      if (share.prefill) prefill_rows += share.rows;
      prefill_left += share.sequence->prompt_rows_left();
      rows.emplace_back(share.sequence->tokens()[0], share.rows);
      share.sequence->accept(std::span(sampled).subspan(static_cast<std::size_t>(share.first_logit_row),
                                                        static_cast<std::size_t>(share.logit_rows)),
                             now);
    }
    model.observe(step.work, step_seconds);
  }
};

}  // namespace grokd::test

#include "engine/step_planner.h"

#include <algorithm>
#include <limits>

namespace grokd {

const Step& StepPlanner::plan(std::span<const std::unique_ptr<Sequence>> running) {
  step_.batch.clear();
  step_.shares.clear();
  step_.work = {};
  for (const auto& sequence : running) {
    if (!sequence->finished() && sequence->prompt_rows_left() == 0) give(*sequence, 1, false);
  }
  give_prompts(running);
  return step_;
}

/// Seconds that the whole step may take. Where nothing decodes, nobody waits for its end.
double StepPlanner::budget() const {
  if (policy_.itl_target_seconds <= 0 || step_.work.tokens == 0)
    return std::numeric_limits<double>::infinity();
  return std::max(policy_.itl_target_seconds, kPrefillStretch * model_.predict(step_.work));
}

void StepPlanner::give_prompts(std::span<const std::unique_ptr<Sequence>> running) {
  const double seconds = budget();
  const int decodes = step_.batch.tokens();
  for (const auto& sequence : running) {
    if (sequence->finished() || sequence->waits_for_prefix || sequence->prompt_rows_left() == 0) continue;
    const int most = std::min(limits_.step_tokens - step_.batch.tokens(), sequence->prompt_rows_left());
    const int least = std::min(most, policy_.min_prefill_rows - (step_.batch.tokens() - decodes));
    give(*sequence, std::max(least, rows_within(seconds, *sequence, most)), true);
  }
}

/// The largest number of the sequence's next rows with which the step is predicted to end in time.
int StepPlanner::rows_within(double seconds, const Sequence& sequence, int most) const {
  if (seconds == std::numeric_limits<double>::infinity()) return most;
  int fit = 0, limit = std::min(most, model_.trusted_tokens() - step_.work.tokens);
  while (fit < limit) {
    const int rows = (fit + limit + 1) / 2;
    StepWork work = step_.work;
    work.add_rows(rows, sequence.next_position(), rows == sequence.prompt_rows_left() ? 1 : 0);
    if (model_.predict(work) <= seconds) {
      fit = rows;
    } else {
      limit = rows - 1;
    }
  }
  return fit;
}

void StepPlanner::give(Sequence& sequence, int rows, bool prefill) {
  Batch& batch = step_.batch;
  const int first = static_cast<int>(batch.logit_rows.size());
  rows = sequence.rows_within(rows, limits_.logit_rows - first);
  if (rows <= 0) return;
  const int position = sequence.next_position();
  sequence.feed(rows, batch);
  const int added = static_cast<int>(batch.logit_rows.size()) - first;
  step_.work.add_rows(rows, position, added);
  step_.shares.push_back({&sequence, rows, first, added, prefill});
}

}  // namespace grokd

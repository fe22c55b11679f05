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
double StepPlanner::budget(const StepWork& decodes) const {
  if (policy_.itl_target_seconds <= 0 || decodes.tokens == 0) return std::numeric_limits<double>::infinity();
  return std::max(policy_.itl_target_seconds, kPrefillStretch * model_.predict(decodes));
}

StepForecast StepPlanner::forecast(int decoding, int position) const {
  if (!model_.ready()) return {};
  StepWork work;
  for (int i = 0; i < decoding; ++i) work.add_rows(1, position, 1);
  const double seconds = model_.predict(work);
  const int room = limits_.step_tokens - decoding;
  const int rows =
      std::max(rows_within(budget(work), work, 0, room), std::min(policy_.min_prefill_rows, room));
  work.add_rows(rows, 0, 1);
  const double mixed = model_.predict(work);
  return {seconds, (mixed - seconds) / rows, mixed / rows};
}

void StepPlanner::give_prompts(std::span<const std::unique_ptr<Sequence>> running) {
  const double seconds = budget(step_.work);
  const int decodes = step_.batch.tokens();
  for (const auto& sequence : running) {
    if (sequence->finished() || sequence->waits_for_prefix || sequence->prompt_rows_left() == 0) continue;
    const int most = std::min(limits_.step_tokens - step_.batch.tokens(), sequence->prompt_rows_left());
    const int least = std::min(most, policy_.min_prefill_rows - (step_.batch.tokens() - decodes));
    give(*sequence, std::max(least, rows_within(seconds, step_.work, sequence->next_position(), most)), true);
  }
}

/// The largest number of rows from `position` on with which the step is predicted to end in time.
int StepPlanner::rows_within(double seconds, StepWork work, int position, int most) const {
  if (seconds == std::numeric_limits<double>::infinity()) return most;
  int fit = 0, limit = std::min(most, model_.trusted_tokens() - work.tokens);
  while (fit < limit) {
    const int rows = (fit + limit + 1) / 2;
    StepWork longer = work;
    longer.add_rows(rows, position, 1);
    if (model_.predict(longer) <= seconds) {
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

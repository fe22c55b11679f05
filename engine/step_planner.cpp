#include "engine/step_planner.h"

#include <algorithm>
#include <limits>

namespace grokd {

const Step& StepPlanner::plan(std::span<const std::unique_ptr<Sequence>> running) {
  step_.batch.clear();
  step_.shares.clear();
  step_.work = {};
  give_decodes(running);
  give_prompts(running);
  return step_;
}

void StepPlanner::give_decodes(std::span<const std::unique_ptr<Sequence>> running) {
  const auto decodes = [](const auto& sequence) {
    return !sequence->finished() && sequence->prompt_rows_left() == 0;
  };
  StepWork work;
  for (const auto& sequence : running) {
    if (decodes(sequence)) work.add_rows(1, sequence->next_position(), 1);
  }
  const bool speculate = policy_.speculate && (model_.ready() || policy_.always_speculate);
  const double tokens_per_second = speculate && work.tokens > 0 ? work.tokens / model_.predict(work) : 0;
  for (const auto& sequence : running) {
    if (!decodes(sequence)) continue;
    // Beside the proposals prompts keep their least rows, and one of them its row of logits.
    const int room = std::min(limits_.step_tokens - work.tokens - policy_.min_prefill_rows,
                              limits_.logit_rows - work.logit_rows - 1);
    const int proposals = speculate ? worthwhile_proposals(*sequence, work, tokens_per_second, room) : 0;
    work.add_rows(proposals, sequence->next_position() + 1, proposals);
    give(*sequence, 1 + proposals, false);
  }
}

/// So many that the tokens they are expected to bring exceed by most those that all sequences together could
/// have had in the time they cost.
int StepPlanner::worthwhile_proposals(Sequence& sequence, const StepWork& work, double tokens_per_second,
                                      int room) const {
  constexpr double kLeastGain = 0.02;  // tokens
  const int most = room > 0 ? sequence.propose(room) : 0;
  if (policy_.always_speculate) return most;
  const double seconds = model_.predict(work);
  double best_gain = kLeastGain;
  int best = 0;
  for (int count = 1; count <= most; ++count) {
    StepWork longer = work;
    longer.add_rows(count, sequence.next_position() + 1, count);
    const double cost = (model_.predict(longer) - seconds) * tokens_per_second;
    const double gain = sequence.proposals().expected(count) - cost;
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = count;
  }
  return best;
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
  const double slowness = model_.slowness();
  return {slowness * seconds, slowness * (mixed - seconds) / rows, slowness * mixed / rows};
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

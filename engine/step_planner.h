#pragma once
// What the next step feeds of each running sequence.

#include <memory>
#include <span>
#include <vector>

#include "engine/admission.h"
#include "engine/batch.h"
#include "engine/sequence.h"
#include "engine/step_time.h"

namespace grokd {

struct SchedulerLimits {
  int slots = 0;
  int step_tokens = 0;  // more than slots: beside all decodes a step always has room for a prompt's row
  int logit_rows = 0;   // at least slots
  int pages = 0;
};

struct StepPolicy {
  /// Beside decodes, prompts may lengthen a step to so much, or to kPrefillStretch times what the decodes
  /// take alone if that is longer. 0: no bound.
  double itl_target_seconds = 0.05;
  int min_prefill_rows = 4;       // rows of prompts in a step, bound or not, while there are any
  bool prefix_cache = true;       // prompts that begin alike share the pages of their beginning
  bool speculate = false;         // tokens that the text itself suggests are checked several in a step
  bool always_speculate = false;  // then also where no time is expected to be won, for tests
};

inline constexpr double kPrefillStretch = 1.5;

/// A sequence's share of a step; its logit rows follow each other in the batch.
struct StepShare {
  Sequence* sequence = nullptr;
  int rows = 0, first_logit_row = 0, logit_rows = 0;
  bool prefill = false;
};

struct Step {
  Batch batch;
  std::vector<StepShare> shares;
  StepWork work;
};

class StepPlanner {
 public:
  /// The model must outlive the planner.
  StepPlanner(const SchedulerLimits& limits, const StepPolicy& policy, const StepTimeModel& model)
      : limits_(limits), policy_(policy), model_(model) {}

  /// One row of every decoding sequence, and proposals where they are worth their time; then as many rows of
  /// prompts as the bound allows, in the order of `running`. The step stays valid until the next call.
  const Step& plan(std::span<const std::unique_ptr<Sequence>> running);
  /// What steps cost while `decoding` sequences decode at this position.
  StepForecast forecast(int decoding, int position) const;

 private:
  void give(Sequence& sequence, int rows, bool prefill);
  void give_decodes(std::span<const std::unique_ptr<Sequence>> running);
  int worthwhile_proposals(Sequence& sequence, const StepWork& work, double tokens_per_second,
                           int room) const;
  void give_prompts(std::span<const std::unique_ptr<Sequence>> running);
  int rows_within(double seconds, StepWork work, int position, int most) const;
  double budget(const StepWork& decodes) const;

  const SchedulerLimits limits_;
  const StepPolicy policy_;
  const StepTimeModel& model_;
  Step step_;
};

}  // namespace grokd

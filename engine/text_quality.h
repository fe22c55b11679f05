#pragma once
// How a model scores a text, with what its routing does: to compare lossy choices with the plain form.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model_runner.h"

namespace grokd {

struct TextQuality {
  std::vector<float> logprobs;             // of each token but the first of its window
  std::vector<TokenId> best;               // what the model would have said there
  std::vector<std::int64_t> expert_loads;  // [experts] choices of all tokens in all layers
  std::int64_t skipped = 0;                // choices that pruning skipped
  double step_seconds = 0;                 // median of single steps after the text

  double perplexity() const;
  /// The most loaded expert's share of the mean.
  double imbalance() const;
  double skipped_share() const;
};

/// Windows of at most the model's context that do not overlap; then `single_steps` steps of one token are
/// timed. Throws ConfigError.
TextQuality measure_quality(const std::string& model_dir, const ModelConfig& config,
                            const RunnerOptions& options, std::span<const TokenId> ids, int single_steps);

/// Share of places where both would have said the same.
double agreement(const TextQuality& a, const TextQuality& b);
/// Mean of |difference| of the log-probabilities.
double mean_difference(const TextQuality& a, const TextQuality& b);

}  // namespace grokd

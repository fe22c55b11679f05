#pragma once
// Log-probabilities of a given text: what `grokd score` prints and an echo request returns.

#include <span>

#include "engine/engine.h"

namespace grokd {

struct Score {
  std::vector<float> logprobs;  // of every token but the first of each window
  int windows = 0;
  double sum() const;         // in order, in f64
  double perplexity() const;  // exp(-mean); 1 where nothing was scored
};

/// Scores the ids in windows of at most `window` tokens that do not overlap. Throws std::runtime_error when
/// the engine fails or refuses.
Score score(Engine& engine, std::span<const TokenId> ids, int window);

}  // namespace grokd

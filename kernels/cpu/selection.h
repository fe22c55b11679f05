#pragma once
// Thresholds in one row of logits, found without sorting.

#include <cstdint>

namespace grokd::kernels {

inline constexpr int kRadixBuckets = 2048;

/// The smallest value v such that the weights of all values <= v sum to at least `target`. weights null: each
/// value counts 1. 1 <= target <= sum of all weights. sums: scratch [kRadixBuckets]; candidates: scratch [n].
float weighted_threshold(const float* values, const std::uint64_t* weights, int n, std::uint64_t target,
                         std::uint64_t* sums, std::int32_t* candidates);

}  // namespace grokd::kernels

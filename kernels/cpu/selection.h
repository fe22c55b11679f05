#pragma once
// Thresholds in one row of logits, found without sorting.

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace grokd::kernels {

inline constexpr int kRadixBuckets = 2048;

/// The smallest value v such that the weights of all values <= v sum to at least `target`. weights null: each
/// value counts 1. largest: of the values. 1 <= target <= sum of all weights. Scratch: sums [kRadixBuckets],
/// indices [n].
float weighted_threshold(const VectorKernels& kernels, const float* values, const std::uint64_t* weights,
                         int n, float largest, std::uint64_t target, std::uint64_t* sums,
                         std::int32_t* indices);

}  // namespace grokd::kernels

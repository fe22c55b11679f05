#include "kernels/cpu/selection.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace grokd::kernels {
namespace {

/// Order-preserving; -0 and +0 alike.
std::uint32_t key_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

float value_of(std::uint32_t key) {
  return std::bit_cast<float>(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/// The threshold among the listed values, digit by digit of their keys.
float radix_threshold(const float* values, const std::uint64_t* weights, int count, std::uint64_t target,
                      std::uint64_t* sums, std::int32_t* indices) {
  constexpr int kDigits[] = {11, 11, 10};  // bits, most significant first
  std::uint32_t prefix = 0;
  int shift = 32;
  for (const int digits : kDigits) {
    shift -= digits;
    const std::uint32_t mask = (1u << digits) - 1;
    const auto digit = [&](std::int32_t v) { return key_of(values[v]) >> shift & mask; };
    std::fill_n(sums, mask + 1, 0);
    for (int i = 0; i < count; ++i) sums[digit(indices[i])] += weights ? weights[indices[i]] : 1;
    std::uint32_t bucket = 0;
    while (bucket < mask && sums[bucket] < target) target -= sums[bucket++];
    count = static_cast<int>(
        std::remove_if(indices, indices + count, [&](std::int32_t v) { return digit(v) != bucket; }) -
        indices);
    prefix |= bucket << shift;
  }
  return value_of(prefix);
}

}  // namespace

float weighted_threshold(const VectorKernels& kernels, const float* values, const std::uint64_t* weights,
                         int n, float largest, std::uint64_t target, std::uint64_t* sums,
                         std::int32_t* indices) {
  // Vector passes first halve the interval (above, up_to] in which it lies; few values are left for the
  // radix.
  constexpr float kFirstSpan = 28.5f;  // below it weigh nothing: exp(-28.5) < 2^-41
  constexpr int kHalvings = 5;
  float above = largest - kFirstSpan, up_to = largest;
  std::uint64_t below = kernels.sum_up_to(values, weights, n, above);
  if (below >= target) {
    std::iota(indices, indices + n, 0);
    return radix_threshold(values, weights, n, target, sums, indices);
  }
  for (int i = 0; i < kHalvings; ++i) {
    const float middle = above + (up_to - above) / 2;
    const std::uint64_t sum = kernels.sum_up_to(values, weights, n, middle);
    if (sum >= target) {
      up_to = middle;
    } else {
      above = middle, below = sum;
    }
  }
  const int count = kernels.collect(values, n, above, up_to, indices);
  return radix_threshold(values, weights, count, target - below, sums, indices);
}

}  // namespace grokd::kernels

#include "kernels/cpu/selection.h"

#include <algorithm>
#include <bit>

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

}  // namespace

float weighted_threshold(const float* values, const std::uint64_t* weights, int n, std::uint64_t target,
                         std::uint64_t* sums, std::int32_t* candidates) {
  constexpr int kDigits[] = {11, 11, 10};  // of the key, most significant first
  std::uint32_t prefix = 0;
  int bits_left = 32, count = n;
  for (const int digits : kDigits) {
    const int shift = bits_left - digits;
    const std::uint32_t mask = (1u << digits) - 1;
    const bool all = bits_left == 32;
    std::fill_n(sums, kRadixBuckets, 0);
    for (int i = 0; i < count; ++i) {
      const int v = all ? i : candidates[i];
      sums[key_of(values[v]) >> shift & mask] += weights ? weights[v] : 1;
    }
    std::uint32_t bucket = 0;
    while (bucket < mask && sums[bucket] < target) target -= sums[bucket++];
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      const int v = all ? i : candidates[i];
      if ((key_of(values[v]) >> shift & mask) == bucket) candidates[kept++] = v;
    }
    count = kept;
    prefix |= bucket << shift;
    bits_left = shift;
  }
  return value_of(prefix);
}

}  // namespace grokd::kernels

#include "kernels/rank_tree.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace grokd::kernels {
namespace {

constexpr std::ptrdiff_t kBlock = 256;  // elements whose sums of all ranks stay in the nearest cache

/// sums[0] = tree over sums[0 .. ranks - 1], each `count` long.
void add_tree(float (*sums)[kBlock], int ranks, std::ptrdiff_t count) {
  for (int distance = 1; distance < ranks; distance *= 2) {
    for (int r = 0; r < ranks; r += 2 * distance) {
      for (std::ptrdiff_t i = 0; i < count; ++i) sums[r][i] = sums[r][i] + sums[r + distance][i];
    }
  }
}

}  // namespace

void check_rank_count(int ranks) {
  if (ranks >= 1 && ranks <= kMostRanks && (ranks & (ranks - 1)) == 0) return;
  throw std::invalid_argument("a group has 1, 2, 4, ... " + std::to_string(kMostRanks) + " ranks, not " +
                              std::to_string(ranks));
}

void add_rank_tree(const float* const* parts, int ranks, std::ptrdiff_t count, float* out) {
  float sums[kMostRanks][kBlock];
  for (std::ptrdiff_t at = 0; at < count; at += kBlock) {
    const std::ptrdiff_t n = std::min(kBlock, count - at);
    for (int r = 0; r < ranks; ++r) std::copy_n(parts[r] + at, n, sums[r]);
    add_tree(sums, ranks, n);
    std::copy_n(sums[0], n, out + at);
  }
}

}  // namespace grokd::kernels

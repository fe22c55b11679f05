#pragma once
// The sum of the ranks' vectors (docs/numerics.md, section 4): a tree over the ranks, element by element.

#include <cstddef>

namespace grokd::kernels {

inline constexpr int kMostRanks = 64;

/// Throws std::invalid_argument unless ranks is 1, 2, 4, ... kMostRanks.
void check_rank_count(int ranks);

/// out[i] = tree over parts[0 .. ranks - 1][i] for i < count; `out` may be one of the parts.
void add_rank_tree(const float* const* parts, int ranks, std::ptrdiff_t count, float* out);

}  // namespace grokd::kernels

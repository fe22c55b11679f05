#pragma once
// What attention keeps of each block of positions until they are combined: a bounded number of rows at once.

#include <algorithm>
#include <cstddef>

namespace grokd::kernels::cuda {

inline constexpr std::size_t kMostPartialBytes = std::size_t{256} << 20;

/// For one row: numerators [heads, blocks, C], denominators and largest scores [heads, blocks].
inline std::size_t attention_row_bytes(int heads, int head_size, int blocks) {
  const std::size_t results = static_cast<std::size_t>(std::max(heads, 1)) * static_cast<std::size_t>(blocks);
  return results * (static_cast<std::size_t>(head_size) + 2) * sizeof(float);
}

/// Rows of a step that are attended to in one launch.
inline int attention_rows(int heads, int head_size, int blocks, int rows) {
  const std::size_t most = kMostPartialBytes / attention_row_bytes(heads, head_size, blocks);
  return std::max(1,
                  static_cast<int>(std::min<std::size_t>(most, static_cast<std::size_t>(std::max(rows, 1)))));
}

inline std::size_t attention_bytes(int heads, int head_size, int blocks, int rows) {
  return attention_row_bytes(heads, head_size, blocks) *
         static_cast<std::size_t>(attention_rows(heads, head_size, blocks, rows));
}

}  // namespace grokd::kernels::cuda

#pragma once
// Rows of codes times one panel of a packed matrix, for the ops that multiply.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/layout.h"

namespace grokd::kernels {

/// Rows of activation codes that meet one matrix.
struct CodeRows {
  const std::byte* codes = nullptr;
  const float* scales = nullptr;  // [row][groups]
  CodeLayout layout;
  const std::int32_t* list = nullptr;  // which rows; null: the first `count`
  int count = 0;

  int row(int i) const { return list ? list[i] : i; }
};

inline constexpr int kMostRowsAtOnce = 12;  // MatrixKernels::rows is at most this

/// Rows are taken a few at a time; all passes over the panel together walk once over what comes next.
class RowTiles {
 public:
  RowTiles(int rows, int most) : rows_(rows), tiles_(ceil_div(rows, most)) {}

  int tiles() const { return tiles_; }
  int first(int tile) const { return static_cast<int>(static_cast<std::int64_t>(rows_) * tile / tiles_); }
  int count(int tile) const { return first(tile + 1) - first(tile); }

  PrefetchWalk walk(const std::byte* next) const {
    return {next, next ? ceil_div(kPrefetchStep / 64, tiles_) : 0};
  }

 private:
  int rows_, tiles_;
};

/// y [count][groups][64], rows y_stride floats apart, for rows [first, first + count), count <=
/// MatrixKernels::rows.
void multiply_rows(const MatrixKernels& kernels, const CodeRows& x, int first, int count,
                   const PanelLayout& layout, const std::byte* panel, PrefetchWalk& walk, float* y,
                   std::ptrdiff_t y_stride);

}  // namespace grokd::kernels

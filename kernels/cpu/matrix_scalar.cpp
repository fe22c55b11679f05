// Codes times packed weights in plain loops over 16-bit codes.

#include "kernels/cpu/isa.h"

namespace grokd::kernels {
namespace {

constexpr int kColumns = 64;
constexpr int kStep = 4 * kColumns;

/// Exact sums of one panel; step k's weights lie at weights + k * stride.
void dot(const std::byte* codes, const std::byte* weights, int stride, int steps,
         std::int64_t sums[kColumns]) {
  const auto* x = reinterpret_cast<const std::int16_t*>(codes);
  for (int c = 0; c < kColumns; ++c) sums[c] = 0;
  for (int k = 0; k < steps; ++k) {
    const auto* w = reinterpret_cast<const std::int8_t*>(weights + std::ptrdiff_t{stride} * k);
    for (int c = 0; c < kColumns; ++c) {
      std::int32_t sum = 0;
      for (int j = 0; j < 4; ++j) sum += std::int32_t{x[4 * k + j]} * std::int32_t{w[4 * c + j]};
      sums[c] += sum;
    }
  }
}

void panel(const std::byte* const* x, const float* x_scale, int rows, int, const std::byte* weights,
           int steps, PrefetchWalk&, float* y, std::ptrdiff_t y_stride) {
  const auto* w_scale =
      reinterpret_cast<const float*>(weights + std::ptrdiff_t{kStep} * steps + 4 * kColumns);
  for (int r = 0; r < rows; ++r) {
    std::int64_t sums[kColumns];
    dot(x[r], weights, kStep, steps, sums);
    for (int c = 0; c < kColumns; ++c) {
      y[r * y_stride + c] = static_cast<float>(sums[c]) * (x_scale[r] * w_scale[c]);
    }
  }
}

void head_panel(const std::byte* const* x, const float* x_scale, int rows, int, const std::byte* weights,
                int steps, PrefetchWalk&, float* y, std::ptrdiff_t y_stride) {
  const auto* w_scale =
      reinterpret_cast<const float*>(weights + std::ptrdiff_t{2 * kStep} * steps + 8 * kColumns);
  for (int r = 0; r < rows; ++r) {
    std::int64_t high[kColumns], low[kColumns];
    dot(x[r], weights, 2 * kStep, steps, high);
    dot(x[r], weights + kStep, 2 * kStep, steps, low);
    for (int c = 0; c < kColumns; ++c) {
      y[r * y_stride + c] = static_cast<float>(256 * high[c] + low[c]) * (x_scale[r] * w_scale[c]);
    }
  }
}

}  // namespace

const MatrixKernels kMatrixScalar = {4, panel, head_panel};

}  // namespace grokd::kernels

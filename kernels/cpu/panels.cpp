#include "kernels/cpu/panels.h"

namespace grokd::kernels {

void multiply_rows(const MatrixKernels& kernels, const CodeRows& x, int first, int count,
                   const PanelLayout& layout, const std::byte* panel, PrefetchWalk& walk, float* y,
                   std::ptrdiff_t y_stride) {
  const std::byte* codes[kMostRowsAtOnce];
  const float* scales[kMostRowsAtOnce];
  for (int i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(x.row(first + i));
    codes[i] = x.codes + row * x.layout.row_bytes();
    scales[i] = x.scales + row * static_cast<std::size_t>(layout.groups);
  }
  for (int g = 0; g < layout.groups; ++g) {
    float scale[kMostRowsAtOnce];
    for (int i = 0; i < count; ++i) scale[i] = scales[i][g];
    kernels.panel(codes, scale, count, x.layout.plane(), panel, layout.steps(), walk,
                  y + std::ptrdiff_t{g} * kPanelColumns, y_stride);
    for (int i = 0; i < count; ++i) codes[i] += x.layout.group_bytes();
    panel += layout.group_bytes();
  }
}

}  // namespace grokd::kernels

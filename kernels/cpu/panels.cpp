#include "kernels/cpu/panels.h"

namespace grokd::kernels {

void multiply_rows(const MatrixKernels& kernels, const CodeRows& x, int first, int count,
                   const PanelLayout& layout, const std::byte* panel, PrefetchWalk& walk, float* y) {
  const std::ptrdiff_t y_stride = std::ptrdiff_t{kPanelColumns} * layout.groups;
  for (int g = 0; g < layout.groups; ++g) {
    const std::byte* codes[kMostRowsAtOnce];
    float scale[kMostRowsAtOnce];
    for (int i = 0; i < count; ++i) {
      const auto row = static_cast<std::size_t>(x.row(first + i));
      codes[i] = x.codes + row * x.layout.row_bytes() + static_cast<std::size_t>(g) * x.layout.group_bytes();
      scale[i] = x.scales[row * static_cast<std::size_t>(layout.groups) + static_cast<std::size_t>(g)];
    }
    kernels.panel(codes, scale, count, x.layout.plane(),
                  panel + static_cast<std::size_t>(g) * layout.group_bytes(), layout.steps(), walk,
                  y + std::ptrdiff_t{g} * kPanelColumns, y_stride);
  }
}

}  // namespace grokd::kernels

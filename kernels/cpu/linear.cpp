// linear and logits: every panel is a work tile, read once for all rows.

#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/op_scratch.h"
#include "kernels/cpu/panels.h"

namespace grokd::kernels {
namespace {

/// Rows of one pass over a panel. Weights that stay in the nearest cache leave little room there for
/// products, and cost little to take again.
int rows_of_a_pass(const MatrixKernels& kernels, const PanelLayout& layout) {
  constexpr std::size_t kNearWeights = 32 << 10;
  return layout.groups > 1 && layout.panel_bytes() <= kNearWeights ? (kernels.rows + 1) / 2 : kernels.rows;
}

}  // namespace

void CpuBackend::linear(const Quantised& x, const LinearWeights& w, MatrixView<float> y) {
  const PanelLayout layout{w.in, w.out, w.groups};
  const CodeRows rows{x.codes, x.scales, {w.in, w.groups}, nullptr, x.rows};
  const RowTiles row_tiles(x.rows, rows_of_a_pass(matrix(), layout));
  const int panels = x.rows > 0 ? layout.panels() : 0;
  const std::ptrdiff_t group_floats = std::ptrdiff_t{w.groups} * kPanelColumns;
  scratch_.reserve_own(bytes_of<PanelScratch>(matrix().rows, w.groups));
  const auto panel_at = [&](int p) {
    return p < panels ? w.data.data() + static_cast<std::size_t>(p) * layout.panel_bytes() : nullptr;
  };
  pool_.parallel_for(panels, [&](int panel, int thread) {
    Carver carver = scratch_.own(thread);
    const PanelScratch own(carver, matrix().rows, w.groups);
    PrefetchWalk walk = row_tiles.walk(panel_at(panel + pool_.threads()));
    const int column = panel * kPanelColumns, columns = std::min(kPanelColumns, w.out - column);
    for (int tile = 0; tile < row_tiles.tiles(); ++tile) {
      const int first = row_tiles.first(tile), count = row_tiles.count(tile);
      if (w.groups == 1 && columns == kPanelColumns) {  // nothing to add up
        multiply_rows(matrix(), rows, first, count, layout, panel_at(panel), walk, y.row(first) + column,
                      y.stride);
        continue;
      }
      multiply_rows(matrix(), rows, first, count, layout, panel_at(panel), walk, own.y, group_floats);
      for (int i = 0; i < count; ++i) {
        vector().sum_groups(own.y + i * group_floats, w.groups, kPanelColumns, columns,
                            y.row(first + i) + column);
      }
    }
  });
}

void CpuBackend::logits(const Quantised& x, const HeadWeights& head, float multiplier, float cap,
                        MatrixView<float> logits) {
  const HeadLayout layout{head.vocab, head.width};
  const CodeLayout codes{head.width, 1};
  const float inverse_cap = cap != 0 ? static_cast<float>(1.0 / static_cast<double>(cap)) : 0;
  const RowTiles row_tiles(x.rows, matrix().rows);
  const int panels = x.rows > 0 ? layout.panels() : 0;
  scratch_.reserve_own(bytes_of<PanelScratch>(matrix().rows, 1));
  const auto panel_at = [&](int p) {
    return p < panels ? head.data.data() + static_cast<std::size_t>(p) * layout.panel_bytes() : nullptr;
  };
  pool_.parallel_for(panels, [&](int panel, int thread) {
    Carver carver = scratch_.own(thread);
    const PanelScratch own(carver, matrix().rows, 1);
    PrefetchWalk walk = row_tiles.walk(panel_at(panel + pool_.threads()));
    const int column = panel * kPanelColumns, columns = std::min(kPanelColumns, head.vocab - column);
    for (int tile = 0; tile < row_tiles.tiles(); ++tile) {
      const int first = row_tiles.first(tile), count = row_tiles.count(tile);
      const std::byte* row[kMostRowsAtOnce];
      for (int i = 0; i < count; ++i)
        row[i] = x.codes + static_cast<std::size_t>(first + i) * codes.row_bytes();
      matrix().head_panel(row, x.scales + first, count, codes.plane(), panel_at(panel), layout.steps(), walk,
                          own.y, kPanelColumns);
      for (int i = 0; i < count; ++i) {
        float* y = own.y + std::ptrdiff_t{i} * kPanelColumns;
        vector().finish_logits(y, columns, multiplier, cap, inverse_cap);
        std::copy_n(y, columns, logits.row(first + i) + column);
      }
    }
  });
}

}  // namespace grokd::kernels

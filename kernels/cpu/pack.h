#pragma once
// Checkpoint matrices into panels (layout.h).

#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/layout.h"

namespace grokd::kernels {

/// Throws std::invalid_argument if the matrix cannot have `groups` scale groups, or its scales do not fit it.
void check_source(const LinearSource& source, int groups);

/// Where a run of output columns comes from.
struct PanelColumns {
  const LinearSource* source = nullptr;
  int first = 0, count = 0;
};

/// Fills consecutive panels; `columns` lists all their columns in order, and those with no source are zero.
void pack_panels(std::span<const PanelColumns> columns, const PanelLayout& layout, std::byte* out);

/// Panel `panel` of the output embedding.
void pack_head_panel(MatrixView<const float> embeddings, const HeadLayout& layout, int panel, std::byte* out);

}  // namespace grokd::kernels

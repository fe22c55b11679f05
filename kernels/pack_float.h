#pragma once
// Float matrices into int8 with scales (docs/numerics.md, section 4: Q(column, 127) per group).

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace grokd::kernels {

/// w [K, N] -> codes [K, N] and scales [G, N]; K is a multiple of `groups`. A column whose run of one group
/// holds a NaN or an inf gets a NaN scale there.
void pack_float_matrix(MatrixView<const float> w, int groups, MatrixView<std::int8_t> codes,
                       MatrixView<float> scales);

/// One column's run of one group: its codes and, returned, its scale.
float pack_float_run(std::span<const float> run, std::int8_t* codes);

}  // namespace grokd::kernels

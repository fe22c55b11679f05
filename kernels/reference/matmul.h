#pragma once
// The integer product of section 4.

#include "kernels/reference/layout.h"

namespace grokd::kernels::reference {

/// y[n] = f32(sum over group `group` of codes[k] * W[k][n]) * (code_scale * scale[group][n]).
/// `codes` holds the row's codes of the group alone.
void multiply_group(const std::int16_t* codes, float code_scale, const PackedMatrix& w, int group, float* y);

/// y[n] = tree over the groups. `codes` [in], `code_scales` [groups].
void multiply(const std::int16_t* codes, const float* code_scales, const PackedMatrix& w, float* y);

/// y[n] = tree over g of parts[g][n]; parts [groups, n].
void add_groups(const float* parts, int groups, int columns, float* y);

}  // namespace grokd::kernels::reference

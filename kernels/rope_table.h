#pragma once
// RoPE tables in f64, rounded once (docs/numerics.md, section 5.2).

#include <vector>

#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/rope_scaling.h"

namespace grokd::kernels {

/// 1 / theta^(2i/d) for i < d/2, by square roots and products.
std::vector<double> rope_inverse(double theta, int head_size);

/// cos and sin for positions [0, positions), uploaded to the backend.
RopeTable make_rope_table(Backend& backend, double theta, int head_size, int positions,
                          const RopeScaling& scaling = {});

/// Rank 0's table for all ranks: another libm may round another way.
void share_rope_table(Communicator& group, Backend& backend, RopeTable& table);

}  // namespace grokd::kernels

#pragma once
// Tensor parallel over the devices of one process (nccl_group.cu).

#include <atomic>
#include <memory>

#include "kernels/communicator.h"

namespace grokd::kernels::cuda {

/// Ranks on devices first_device, first_device + 1, ... Throws std::invalid_argument where there are too few.
std::unique_ptr<RankGroup> make_nccl_group(int first_device, int ranks);

}  // namespace grokd::kernels::cuda

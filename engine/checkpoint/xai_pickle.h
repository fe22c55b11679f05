#pragma once
// One file of xAI's checkpoint: the pickle of a float32 array or of an int8 array with bfloat16 scales.

#include <span>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/pickle_graph.h"

namespace grokd {

struct PickledTensor {
  TensorView weight;  // f32 alone, or i8 with scales
  TensorView scales;  // bf16, absent for a plain array
};

/// The views point into `file`. Throws PickleError, whatever the bytes are.
PickledTensor read_xai_pickle(std::span<const std::byte> file);

}  // namespace grokd

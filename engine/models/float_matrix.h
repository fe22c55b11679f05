#pragma once
// Float matrices [out, in] of a checkpoint, packed to int8 (docs/numerics.md, section 4) as a rank needs
// them.

#include <cstdint>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/models/weight_block.h"
#include "kernels/backend.h"

namespace grokd {

/// Codes [in, out] and scales [groups, out] of a part of a matrix.
class PackedFloats {
 public:
  PackedFloats(int in, int out, int groups);
  kernels::LinearSource source() const;
  kernels::MatrixView<std::int8_t> codes() { return {codes_.data(), in_, out_}; }
  kernels::MatrixView<float> scales() { return {scales_.data(), groups_, out_}; }

 private:
  int in_, out_, groups_;
  std::vector<std::int8_t> codes_;
  std::vector<float> scales_;
};

/// A rank's run of outputs, one group.
PackedFloats pack_outputs(const FloatMatrix& matrix, Shard shard);
/// A rank's run of inputs in `groups` groups.
PackedFloats pack_inputs(const FloatMatrix& matrix, Shard shard, int groups);

/// A plain f32 copy on the device as [in, out].
kernels::Buffer upload_transposed(kernels::Backend& backend, const FloatMatrix& matrix);

}  // namespace grokd

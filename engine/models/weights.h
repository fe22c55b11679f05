#pragma once
// From tensors of a checkpoint to what a backend packs: widened scales, slices of a rank.

#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/models/model.h"
#include "kernels/backend.h"

namespace grokd {

/// values.size() values as f32; q8_0: a multiple of 32.
void widen(DType type, const std::byte* data, std::span<float> values);
/// All values of an array as aligned f32.
std::vector<float> widen(const TensorView& tensor);

/// A plain f32 copy on the device, [n].
kernels::Buffer upload_floats(kernels::Backend& backend, const TensorView& tensor);

/// A quantised tensor [in, out] (or [experts, in, out]) with its scales widened; hands out views for packing.
class QuantisedTensor {
 public:
  explicit QuantisedTensor(const CheckpointTensor& tensor);
  int experts() const { return experts_; }
  int in() const { return in_; }
  int out() const { return out_; }

  /// The matrix (of one expert) whole; column-parallel: the rank's run of outputs; row-parallel: its run of
  /// inputs with its own scale rows.
  kernels::LinearSource whole(int expert = 0) const;
  kernels::LinearSource columns(Shard shard, int expert = 0) const;
  kernels::LinearSource rows(Shard shard, int expert = 0) const;

 private:
  const std::int8_t* weight_;
  std::vector<float> scales_;
  int experts_ = 1, in_ = 0, out_ = 0, scale_rows_ = 1;
};

/// Runs `tasks` on up to `threads` threads; the first exception is thrown again when all have ended.
void run_parallel(std::span<const std::function<void()>> tasks, int threads);

}  // namespace grokd

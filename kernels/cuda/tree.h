#pragma once
// ((y0+y1)+(y2+y3))+...: docs/numerics.md, section 1, for values that come one after the other.

#include "kernels/cuda/launch.h"

namespace grokd::kernels::cuda {

class TreeSum {
 public:
  __device__ void add(float value) {
    int level = 0;
    for (int n = count_++; (n & 1) != 0; n >>= 1) value = pending_[level++] + value;
    pending_[level] = value;
  }
  /// After 2^m values.
  __device__ float result() const {
    int level = 0;
    while ((count_ >> level & 1) == 0) ++level;
    return pending_[level];
  }

 private:
  static constexpr int kLevels = 17;  // a group has at least one input, a matrix fewer than 2^17
  float pending_[kLevels];
  int count_ = 0;
};

}  // namespace grokd::kernels::cuda

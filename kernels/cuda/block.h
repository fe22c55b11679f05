#pragma once
// What the threads of a warp or a block do together.

#include <cstdint>

#include "kernels/cuda/elementary.h"
#include "kernels/cuda/launch.h"

namespace grokd::kernels::cuda {

inline constexpr int kLanes = 64;  // of a float sum: docs/numerics.md, section 1

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int threads() { return static_cast<int>(blockDim.x); }
__device__ inline int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};
struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// Every lane gets the result; the order is free (a maximum, a sum of integers).
template <class T, class Join>
__device__ T warp_reduce(T value, Join join) {
  for (int s = kWarp / 2; s > 0; s /= 2) value = join(value, __shfl_xor_sync(kAllLanes, value, s));
  return value;
}

/// Every thread gets the result. room: one value a warp; the block is whole warps.
template <class T, class Join>
__device__ T block_reduce(T value, const SharedArray<T>& room, Join join, T neutral) {
  value = warp_reduce(value, join);
  __syncthreads();  // the room may still be read
  if (lane() == 0) room[warp()] = value;
  __syncthreads();
  return warp_reduce(lane() < threads() / kWarp ? static_cast<T>(room[lane()]) : neutral, join);
}
inline constexpr std::size_t kReduceRoom = 32;  // values

/// The first lane gets l[0] of the halving of 64 lanes: each lane brings l[lane] and l[lane + 32].
__device__ inline float halve_lanes(float low, float high) {
  float sum = low + high;
  for (int s = kWarp / 2; s > 0; s /= 2)
    sum = sum + __shfl_down_sync(kAllLanes, sum, static_cast<unsigned>(s));
  return sum;
}

/// bits of |x|, ordered like |x|, NaN and inf at the end.
__device__ inline unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/// The quantiser of docs/numerics.md, section 3, for the largest magnitude of a run.
struct Quantiser {
  float inverse, scale;
  bool empty;  // all codes 0
};
inline constexpr float kActivationCode = 32767.0f, kByteCode = 127.0f;
__device__ inline Quantiser quantiser_of(unsigned largest_bits, float limit = kActivationCode) {
  if (largest_bits >= 0x7f800000u) return {0, not_a_number(), true};
  if (largest_bits < 0x0da24260u) return {0, 0, true};
  const float largest = __uint_as_float(largest_bits);
  return {__fdiv_rn(limit, largest), __fdiv_rn(largest, limit), false};
}
__device__ inline int code_of(const Quantiser& q, float x) {
  return q.empty ? 0 : __float2int_rn(x * q.inverse);
}

}  // namespace grokd::kernels::cuda

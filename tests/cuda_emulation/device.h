#pragma once
// What the kernels use of CUDA C++, as plain C++: qualifiers, indices, barriers, shuffles, atomics,
// intrinsics.

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/cuda_emulation/block.h"
#include "tests/cuda_emulation/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::cuda_emulation::Machine::current().thread_index())
#define blockIdx (::cuda_emulation::Machine::current().block_index())
#define blockDim (::cuda_emulation::Machine::current().shape().block)
#define gridDim (::cuda_emulation::Machine::current().shape().grid)

namespace cuda_emulation {

/// Every lane of `mask` gets what lane `source(own lane)` brought; an absent source gives its own value.
template <class T>
T shuffle(unsigned mask, const char* what, T value, int source) {
  struct Input {
    T value;
    int source;
  };
  const Input input{value, source};
  T result{};
  const auto compute = [](unsigned present, const void* const* inputs, void* const* outputs) {
    for (int lane = 0; lane < kWarp; ++lane) {
      if ((present >> lane & 1) == 0) continue;
      const auto* own = static_cast<const Input*>(inputs[lane]);
      const bool valid = own->source >= 0 && own->source < kWarp && (present >> own->source & 1) != 0;
      *static_cast<T*>(outputs[lane]) =
          valid ? static_cast<const Input*>(inputs[own->source])->value : own->value;
    }
  };
  Machine::current().meet(mask, what, compute, &input, &result);
  return result;
}

}  // namespace cuda_emulation

inline void __syncthreads() { cuda_emulation::Machine::current().wait_for_block(); }
inline void __syncwarp(unsigned mask = ~0u) {
  int nothing = 0;
  cuda_emulation::Machine::current().meet(
      mask, "__syncwarp", [](unsigned, const void* const*, void* const*) {}, &nothing, &nothing);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  return cuda_emulation::shuffle(mask, "__shfl_sync", value, source % cuda_emulation::kWarp);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return cuda_emulation::shuffle(mask, "__shfl_xor_sync", value,
                                 cuda_emulation::Machine::current().lane() ^ bits);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  return cuda_emulation::shuffle(mask, "__shfl_down_sync", value,
                                 cuda_emulation::Machine::current().lane() + static_cast<int>(distance));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  return cuda_emulation::shuffle(mask, "__shfl_up_sync", value,
                                 cuda_emulation::Machine::current().lane() - static_cast<int>(distance));
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned result = 0;
  const auto compute = [](unsigned present, const void* const* inputs, void* const* outputs) {
    unsigned votes = 0;
    for (int lane = 0; lane < cuda_emulation::kWarp; ++lane) {
      if ((present >> lane & 1) != 0 && *static_cast<const int*>(inputs[lane]) != 0) votes |= 1u << lane;
    }
    for (int lane = 0; lane < cuda_emulation::kWarp; ++lane) {
      if ((present >> lane & 1) != 0) *static_cast<unsigned*>(outputs[lane]) = votes;
    }
  };
  cuda_emulation::Machine::current().meet(mask, "__ballot_sync", compute, &predicate, &result);
  return result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

// One block runs at a time and fibers switch only where they wait: plain arithmetic is atomic.
template <class T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}
template <class T>
T atomicMax(T* address, T value) {
  const T before = *address;
  if (value > before) *address = value;
  return before;
}
inline void __threadfence() {}

inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline float __ll2float_rn(long long value) { return static_cast<float>(value); }
inline int __float2int_rn(float value) { return static_cast<int>(std::rint(value)); }
inline float __double2float_rn(double value) { return static_cast<float>(value); }
inline int __popc(unsigned value) { return std::popcount(value); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<std::int8_t>(static_cast<unsigned>(a) >> 8 * i) *
           static_cast<std::int8_t>(static_cast<unsigned>(b) >> 8 * i);
  }
  return sum;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldg(const T* address) {
  return *address;
}
using std::isfinite;
using std::isnan;

#pragma once
// What stands between the kernels and the compiler that compiles them: nvcc, or g++ with the emulator that
// the tests bring (it has no __CUDACC__ and its own <cuda_runtime.h>).

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/runtime.h"

namespace grokd::kernels::cuda {

#ifdef __CUDACC__

template <class T>
struct SharedArray {
  T* data;
  __device__ T& operator[](std::ptrdiff_t i) const { return data[i]; }
  __device__ SharedArray from(std::ptrdiff_t first) const { return {data + first}; }
};

/// Cuts the block's shared memory into arrays; every thread makes the same cuts.
class SharedMemory {
 public:
  template <class T>
  __device__ SharedArray<T> take(std::size_t count) {
    extern __shared__ __align__(16) unsigned char memory[];
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    const std::size_t first = used_;
    used_ += count * sizeof(T);
    return {reinterpret_cast<T*>(memory + first)};
  }

 private:
  std::size_t used_ = 0;
};

template <class T, class V>
__device__ void add_shared(const SharedArray<T>& array, std::ptrdiff_t i, V value) {
  atomicAdd(&array[i], static_cast<T>(value));
}
template <class T>
__device__ void max_shared(const SharedArray<T>& array, std::ptrdiff_t i, T value) {
  atomicMax(&array[i], value);
}

inline constexpr std::size_t kPlainSharedBytes = 48 << 10;  // more than this has to be asked for

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > kPlainSharedBytes) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
  kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
  check(cudaGetLastError());
}

/// d += a * b of 16 x 32 by 32 x 8 bytes; a signed, b signed or not.
__device__ inline void mma_s8(int (&d)[4], const int (&a)[4], const int (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void mma_u8(int (&d)[4], const int (&a)[4], const int (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

using cuda_emulation::SharedArray;
using cuda_emulation::SharedMemory;

template <class T, class V>
void add_shared(const SharedArray<T>& array, std::ptrdiff_t i, V value) {
  atomicAdd(array[i].atomic(), static_cast<T>(value));
}
template <class T>
void max_shared(const SharedArray<T>& array, std::ptrdiff_t i, T value) {
  atomicMax(array[i].atomic(), value);
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  check(cuda_emulation::launch(stream, {grid, block, shared_bytes}, [=] { kernel(arguments...); }));
}

inline void mma_s8(int (&d)[4], const int (&a)[4], const int (&b)[2]) {
  cuda_emulation::mma_m16n8k32(d, a, b, true);
}
inline void mma_u8(int (&d)[4], const int (&a)[4], const int (&b)[2]) {
  cuda_emulation::mma_m16n8k32(d, a, b, false);
}

#endif

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = ~0u;

}  // namespace grokd::kernels::cuda

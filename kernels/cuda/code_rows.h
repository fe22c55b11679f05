#pragma once
// Rows of floats into rows of codes, one block a row.

#include "kernels/cuda/block.h"
#include "kernels/cuda/layout.h"

namespace grokd::kernels::cuda {

/// Quantised rows as the kernels see them.
struct CodeRows {
  unsigned char* codes = nullptr;
  float* scales = nullptr;
  CodeLayout layout;

  __device__ unsigned char* run(int row, int group) const {
    return codes + layout.row_offset(row) +
           static_cast<std::size_t>(group) * static_cast<std::size_t>(layout.group_tiles()) * kTileBytes;
  }
  __device__ float* scale(int row, int group) const {
    return scales + static_cast<std::ptrdiff_t>(row) * layout.groups + group;
  }
};

/// Four codes of one plane, the first in the lowest byte.
__device__ inline int packed_bytes(const int (&codes)[4], int shift) {
  unsigned bytes = 0;
  for (int i = 0; i < 4; ++i) bytes |= (static_cast<unsigned>(codes[i] >> shift) & 0xffu) << (8 * i);
  return static_cast<int>(bytes);
}

/// value(i), i < length, into one run of codes, by all threads of the block.
template <class Value>
__device__ void quantise_run(const Value& value, int length, unsigned char* run, float* scale,
                             const SharedArray<unsigned>& room) {
  unsigned largest = 0;
  for (int i = thread(); i < length; i += threads()) {
    const unsigned bits = magnitude(value(i));
    if (bits > largest) largest = bits;
  }
  const Quantiser q = quantiser_of(block_reduce(largest, room, Larger{}, 0u));
  if (thread() == 0) *scale = q.scale;
  for (int first = 4 * thread(); first < length; first += 4 * threads()) {
    int codes[4];
    for (int i = 0; i < 4; ++i) codes[i] = first + i < length ? code_of(q, value(first + i)) : 0;
    unsigned char* to =
        run + static_cast<std::ptrdiff_t>(first / kTileInputs) * kTileBytes + code_byte(first % kTileInputs);
    *reinterpret_cast<int*>(to) = packed_bytes(codes, 8);
    *reinterpret_cast<int*>(to + kLowPlane) = packed_bytes(codes, 0);
  }
}

/// One code of a run.
__device__ inline int read_code(const unsigned char* run, int i) {
  const unsigned char* at =
      run + static_cast<std::ptrdiff_t>(i / kTileInputs) * kTileBytes + code_byte(i % kTileInputs);
  return static_cast<int>(static_cast<signed char>(at[0])) * 256 + at[kLowPlane];
}

}  // namespace grokd::kernels::cuda

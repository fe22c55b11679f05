#pragma once
// mma.sync.m16n8k32 of 8-bit integers, by the tables of the PTX manual ("Matrix Fragments for mma.m16n8k32").

#include <cstdint>

#include "tests/cuda_emulation/block.h"

namespace cuda_emulation {

struct MmaInput {
  int a[4], b[2];
  int c[4];
};

/// Row and column of the 8-bit element `i` (0..15) of A held by `lane`.
constexpr int mma_a_row(int lane, int i) { return lane / 4 + (i / 4 % 2) * 8; }
constexpr int mma_a_col(int lane, int i) { return lane % 4 * 4 + i % 4 + (i / 8) * 16; }
/// Row (of the 32) and column (of the 8) of element `i` (0..7) of B.
constexpr int mma_b_row(int lane, int i) { return lane % 4 * 4 + i % 4 + (i / 4) * 16; }
constexpr int mma_b_col(int lane) { return lane / 4; }
/// Row and column of element `i` (0..3) of C and D.
constexpr int mma_c_row(int lane, int i) { return lane / 4 + (i / 2) * 8; }
constexpr int mma_c_col(int lane, int i) { return lane % 4 * 2 + i % 2; }

/// A signed; B signed or not; all lanes take part.
void mma_m16n8k32(int (&c)[4], const int (&a)[4], const int (&b)[2], bool b_signed);

}  // namespace cuda_emulation

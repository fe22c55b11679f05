#pragma once
// How the CUDA backend lays out weights, activation codes and the KV cache.
//
// Weights and codes lie in tiles of 512 bytes, in the order in which the lanes of a warp hold the operands of
// mma.m16n8k32: lane l owns bytes 16l .. 16l+15. A weight tile is 16 outputs x 32 inputs, a code tile 8 rows
// x 32 inputs in two planes of bytes, q>>8 (signed) and q&255 (unsigned). A row of a code tile is 64 bytes in
// a run, so rows of any order are read as fast as neighbours. Groups of inputs are padded with zero weights,
// to whole tiles; pads of codes may hold anything.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace grokd::kernels::cuda {

/// Of weights; changes with them, so that files packed for another layout are known.
inline constexpr std::string_view kWeightLayout = "cuda-tiles-1";

inline constexpr int kTileOutputs = 16, kTileInputs = 32, kTileRows = 8, kTileBytes = 512;
inline constexpr int kRowBytes = kTileBytes / kTileRows;  // of one row in a code tile
inline constexpr int kPairOutputs = kTileOutputs / 2;     // gate and up share a tile, eight columns of each

constexpr int ceil_div(int n, int unit) { return (n + unit - 1) / unit; }
constexpr int round_up(int n, int unit) { return ceil_div(n, unit) * unit; }

/// Byte of output `row` (0..15), input `k` (0..31) in a weight tile.
constexpr int weight_byte(int row, int k) {
  return (row % 8 * 4 + k % 16 / 4) * 16 + (row / 8 + k / 16 * 2) * 4 + k % 4;
}
/// Byte of the high plane of input `k` in a row of a code tile; the low plane is 8 bytes further.
constexpr int code_byte(int k) { return k % 16 / 4 * 16 + k / 16 * 4 + k % 4; }
inline constexpr int kLowPlane = 8;

/// A matrix: tiles [output tile][input tile], then f32 scales [groups][outputs padded].
struct MatrixLayout {
  int in = 0, out = 0, groups = 1;

  constexpr int group_inputs() const { return in / groups; }
  constexpr int group_tiles() const { return ceil_div(group_inputs(), kTileInputs); }
  constexpr int input_tiles() const { return group_tiles() * groups; }
  constexpr int output_tiles() const { return ceil_div(out, kTileOutputs); }
  constexpr int padded_out() const { return output_tiles() * kTileOutputs; }
  constexpr std::size_t scale_offset() const {
    return static_cast<std::size_t>(output_tiles()) * static_cast<std::size_t>(input_tiles()) * kTileBytes;
  }
  constexpr std::size_t bytes() const {
    return scale_offset() +
           sizeof(float) * static_cast<std::size_t>(groups) * static_cast<std::size_t>(padded_out());
  }
};

/// One expert: gate and up as one matrix whose tiles are 8 columns of each, then down.
struct ExpertLayout {
  int width = 0, ffn = 0, groups = 1;

  constexpr MatrixLayout gate_up() const { return {width, ceil_div(ffn, kPairOutputs) * kTileOutputs, 1}; }
  constexpr MatrixLayout down() const { return {ffn, width, groups}; }
  constexpr std::size_t bytes() const { return gate_up().bytes() + down().bytes(); }
};

/// The output embedding: for each output and input tile one of high bytes, then one of low ones; then scales.
struct HeadLayout {
  int vocab = 0, width = 0;

  constexpr MatrixLayout matrix() const { return {width, vocab, 1}; }
  constexpr std::size_t scale_offset() const { return 2 * matrix().scale_offset(); }
  constexpr std::size_t bytes() const { return matrix().scale_offset() + matrix().bytes(); }
};

/// Activation codes: tiles [row tile][input tile].
struct CodeLayout {
  int cols = 0, groups = 1;

  constexpr int group_cols() const { return cols / groups; }
  constexpr int group_tiles() const { return ceil_div(group_cols(), kTileInputs); }
  constexpr int input_tiles() const { return group_tiles() * groups; }
  constexpr std::size_t bytes(int rows) const {
    return static_cast<std::size_t>(ceil_div(rows, kTileRows)) * static_cast<std::size_t>(input_tiles()) *
           kTileBytes;
  }
  /// Where row `row` begins in its first tile; its next tile is kTileBytes further.
  constexpr std::size_t row_offset(int row) const {
    return static_cast<std::size_t>(row / kTileRows) * static_cast<std::size_t>(input_tiles()) * kTileBytes +
           static_cast<std::size_t>(row % kTileRows) * kRowBytes;
  }
};

/// A page: for each KV head keys [ceil(C/r)][64][r], r codes being 16 bytes, and values [64][C]; codes of 16
/// or 8 bits; then 64 key scales and 64 value scales. Lanes own positions where keys are read and channels
/// where values are.
struct PageLayout {
  int kv_heads = 0, head_size = 0, code_bytes = 2;

  constexpr int key_run() const { return 16 / code_bytes; }
  constexpr std::size_t key_bytes() const {
    return static_cast<std::size_t>(round_up(head_size, key_run()) * code_bytes) * 64;
  }
  constexpr std::size_t value_bytes() const { return static_cast<std::size_t>(head_size * code_bytes) * 64; }
  constexpr std::size_t head_bytes() const { return key_bytes() + value_bytes() + 2 * 64 * sizeof(float); }
  constexpr std::size_t page_bytes() const { return head_bytes() * static_cast<std::size_t>(kv_heads); }
};

}  // namespace grokd::kernels::cuda

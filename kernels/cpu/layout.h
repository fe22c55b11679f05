#pragma once
// How the CPU backend lays out weights, activation codes and the KV cache; the same for every instruction
// set, except that a row's codes are two planes of bytes for AVX-512 and 16-bit numbers otherwise.
//
// Weights: panels of 64 output columns. A panel holds its scale groups one after the other; a group holds
// steps of 4 inputs, each 4 tiles of 16 columns x 4 inputs (64 bytes: column-major, so that one 32-bit lane
// is the 4 inputs of a column), then 64 int32 column sums times 128 and 64 f32 scales. A work tile so reads
// one sequential run of memory. Inputs past a group's end and columns past the matrix are zero. Output
// embedding: the same, each step with 4 tiles of high bytes, then 4 of low bytes; two rows of sums.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace grokd::kernels {

/// Of weights; changes with them, so that files packed for another layout are known.
inline constexpr std::string_view kWeightLayout = "cpu-panels-1";

inline constexpr int kTileColumns = 16;
inline constexpr int kPanelColumns = 64;
inline constexpr int kStepInputs = 4;
inline constexpr int kStepBytes = kPanelColumns * kStepInputs;
inline constexpr int kSumBytes = kPanelColumns * 4;
inline constexpr int kScaleBytes = kPanelColumns * 4;

constexpr int ceil_div(int n, int unit) { return (n + unit - 1) / unit; }
constexpr int round_up(int n, int unit) { return ceil_div(n, unit) * unit; }

/// One matrix in panels.
struct PanelLayout {
  int in = 0, out = 0, groups = 1;

  int panels() const { return ceil_div(out, kPanelColumns); }
  int group_inputs() const { return in / groups; }
  int steps() const { return ceil_div(group_inputs(), kStepInputs); }
  std::size_t group_bytes() const {
    return static_cast<std::size_t>(steps()) * kStepBytes + kSumBytes + kScaleBytes;
  }
  std::size_t panel_bytes() const { return group_bytes() * static_cast<std::size_t>(groups); }
  std::size_t bytes() const { return panel_bytes() * static_cast<std::size_t>(panels()); }
};

/// The output embedding in panels of 64 vocabulary rows.
struct HeadLayout {
  int vocab = 0, width = 0;

  int panels() const { return ceil_div(vocab, kPanelColumns); }
  int steps() const { return ceil_div(width, kStepInputs); }
  std::size_t panel_bytes() const {
    return static_cast<std::size_t>(steps()) * 2 * kStepBytes + 2 * kSumBytes + kScaleBytes;
  }
  std::size_t bytes() const { return panel_bytes() * static_cast<std::size_t>(panels()); }
};

/// Gate and up lie side by side: a panel is 32 columns of gate, then the same 32 of up.
inline constexpr int kPairColumns = kPanelColumns / 2;

/// One expert: gate and up panels, then those of down.
struct ExpertLayout {
  int width = 0, ffn = 0, groups = 1;

  PanelLayout gate_up() const { return {width, ceil_div(ffn, kPairColumns) * kPanelColumns, 1}; }
  PanelLayout down() const { return {ffn, width, groups}; }
  std::size_t bytes() const { return gate_up().bytes() + down().bytes(); }
};

/// Activation codes: each group of a row is `plane` codes of 16 bits.
struct CodeLayout {
  int cols = 0, groups = 1;

  int group_cols() const { return cols / groups; }
  int plane() const { return round_up(group_cols(), 64); }
  std::size_t group_bytes() const { return 2 * static_cast<std::size_t>(plane()); }
  std::size_t row_bytes() const { return group_bytes() * static_cast<std::size_t>(groups); }
};

/// A page: for each KV head keys [C/2][64][2] and values [32][stride][2] as codes of `code_bytes`, then 64
/// key scales and 64 value scales. Pairs lie together because the products take them two at a time.
struct PageLayout {
  int kv_heads = 0, head_size = 0;
  int code_bytes = 2;

  int stride() const { return round_up(head_size, 16); }
  std::size_t key_bytes() const { return codes(head_size); }
  std::size_t value_bytes() const { return codes(stride()); }
  std::size_t head_bytes() const { return key_bytes() + value_bytes() + 2 * 64 * sizeof(float); }
  std::size_t page_bytes() const { return head_bytes() * static_cast<std::size_t>(kv_heads); }
  std::size_t codes(int channels) const {
    return static_cast<std::size_t>(channels) * 64 * static_cast<std::size_t>(code_bytes);
  }
};

}  // namespace grokd::kernels

#pragma once
// The inner loops of one instruction set, as tables of functions. Pointers and counts only: no type with
// inline members may be instantiated in a file compiled for an instruction set (see simd_avx512.h).

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace grokd::kernels {

/// Where to prefetch weights that will be wanted next, walked along while others are multiplied.
struct PrefetchWalk {
  const std::byte* next = nullptr;
  int lines_per_step = 0;  // cache lines for every kPrefetchStep bytes of weights multiplied
};
inline constexpr int kPrefetchStep = 2048;

/// Queries that share the keys and values of one KV head, against one page (64 positions).
struct AttentionQueries {
  int count = 0;
  int head_size = 0;
  int stride = 0;                        // head_size rounded up to 16
  const std::int16_t* planes = nullptr;  // [count][2][stride]: code >> 8, code & 255
  const float* scale = nullptr;          // [count]
  const int* first = nullptr;            // [count] visible positions of the page: [first, last)
  const int* last = nullptr;
  float multiplier = 1, cap = 0, inverse_cap = 0;
  const float* temperature = nullptr;  // [count] or null
};

/// One KV head's part of one page; see layout.h.
struct PageHead {
  const std::byte* keys = nullptr;     // [head_size/2][64][2] codes
  const std::byte* values = nullptr;   // [32][stride][2] codes
  const float* key_scale = nullptr;    // [64]
  const float* value_scale = nullptr;  // [64]
  bool narrow = false;                 // codes of 8 bits instead of 16
};

/// What a draw's random words depend on besides the token.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint32_t draw = 0, choice = 0;
};

/// Loops over floats and 16-bit codes. `plane`: see layout.h. Rows need no alignment.
struct VectorKernels {
  void (*scale)(const float* x, float multiplier, int n, float* y);
  void (*multiply)(const float* x, const float* factors, int n, float* y);
  void (*add)(const float* y, int n, float* h);
  void (*norm)(const float* x, const float* gain, float eps, int n, float* y);
  void (*add_norm)(const float* y, const float* gain, float eps, int n, float* h);
  void (*quantise)(const float* x, int n, std::byte* codes, int plane, float* scale);
  /// `limit`: the largest code.
  void (*quantise_plain)(const float* x, int n, float limit, std::int16_t* codes, float* scale);
  void (*read_codes)(const std::byte* codes, int plane, int n, std::int16_t* out);
  /// codes -> [2][stride], as AttentionQueries has them.
  void (*split_codes)(const std::byte* codes, int plane, int n, int stride, std::int16_t* planes);
  void (*rope)(const float* x, const float* cosine, const float* sine, int half, float* y);
  /// exp(z - max z) of z = cap(x W); lanes: scratch of 64 * experts + 16, spread: n * experts + 16 floats.
  void (*router)(const float* x, int n, const float* w, int experts, float cap, float inverse_cap,
                 float* lanes, float* spread, float* weight);
  void (*gelu_product)(const float* u, const float* v, int n, float* t);
  void (*silu_product)(const float* u, const float* v, int n, float* t);
  /// out = tree over groups of y[g * group_stride ..].
  void (*sum_groups)(const float* y, int groups, std::ptrdiff_t group_stride, int n, float* out);
  /// out = tree over groups of the sum over j of gates[j] * parts[j][g * group_stride ..], in order; count >
  /// 0.
  void (*mix_experts)(const float* const* parts, const float* gates, int count, int groups,
                      std::ptrdiff_t group_stride, int n, float* out);
  void (*finish_logits)(float* y, int n, float multiplier, float cap, float inverse_cap);

  /// scores [count][64] after multiplier and cap.
  void (*scores)(const AttentionQueries& q, const PageHead& page, float* scores);
  /// Largest visible score of each query.
  void (*block_max)(const AttentionQueries& q, const float* scores, float* largest);
  /// num [count][stride] and den [count] take in the page. `factor` [count] null: capped, e = exp(s);
  /// otherwise e = exp(s - block_max) and the page counts factor times.
  void (*accumulate)(const AttentionQueries& q, const PageHead& page, const float* scores,
                     const float* block_max, const float* factor, float* num, float* den);
  void (*divide)(const float* num, float den, int n, float* o);
  float (*exp)(float x);

  /// False if any of x is not finite; else `largest` is the maximum.
  bool (*finite_max)(const float* x, int n, float* largest);
  /// First index of `value`; n if it is not there.
  int (*find)(const float* x, int n, float value);
  /// Exact sum of rint(exp(x - largest) * 2^40), and the terms where `terms` [n rounded up to 16] is not
  /// null.
  std::uint64_t (*exp_total)(const float* x, int n, float largest, std::uint64_t* terms);
  void (*divide_all)(float* x, int n, float divisor);
  /// Sum of the weights of all x <= bound; null: their number.
  std::uint64_t (*sum_up_to)(const float* x, const std::uint64_t* weights, int n, float bound);
  /// Indices of above < x <= up_to, rising; returns their number.
  int (*collect)(const float* x, int n, float above, float up_to, std::int32_t* indices);
  /// Bit i is set for every y[i] that may reach `least` with its Gumbel number added, and perhaps for some
  /// more. n <= 64; words [64] gets the random words, from `counter` on, if any bit is set.
  std::uint64_t (*contenders)(const float* y, int n, const DrawKey& key, std::uint32_t counter, float least,
                              std::uint32_t* words);
};

/// Products of activation codes with packed weights; see layout.h for the panels.
struct MatrixKernels {
  int rows = 0;  // most rows in a call
  /// y[r][0..63] = f32(sum q W) * (s_x[r] * s_w) for one group of one panel. x: a pointer to each row's codes
  /// of the group.
  void (*panel)(const std::byte* const* x, const float* x_scale, int rows, int plane,
                const std::byte* weights, int steps, PrefetchWalk& prefetch, float* y,
                std::ptrdiff_t y_stride);
  /// The same for a panel of the output embedding.
  void (*head_panel)(const std::byte* const* x, const float* x_scale, int rows, int plane,
                     const std::byte* weights, int steps, PrefetchWalk& prefetch, float* y,
                     std::ptrdiff_t y_stride);
};

struct KernelTable {
  std::string_view name;     // as CpuOptions::isa
  std::string_view backend;  // as Backend::name
  const VectorKernels* vector = nullptr;
  const MatrixKernels* matrix = nullptr;
};

/// `isa` as in CpuOptions; "" asks the environment variable GROKD_CPU_ISA, then takes the best there is.
/// Throws std::invalid_argument.
KernelTable choose_kernels(std::string_view isa);

extern const VectorKernels kVectorScalar, kVectorAvx2, kVectorAvx512;
extern const MatrixKernels kMatrixScalar, kMatrixAvx2, kMatrixAvx512;

}  // namespace grokd::kernels

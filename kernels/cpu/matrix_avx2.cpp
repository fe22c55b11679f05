// Codes times packed weights with AVX2: 16-bit codes against weights widened to 16 bits, two products to a
// lane. A lane grows by at most 2^23 a step, so 32-bit sums are carried over to 64 bits before 256 steps have
// passed.

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd_avx2.h"

namespace grokd::kernels {
namespace {

constexpr int kTileColumns = 16;
constexpr int kTileBytes = 64;
constexpr int kTiles = 4;  // of a panel
constexpr int kExactSteps = 248;
constexpr int kStepsAPrefetch = kPrefetchStep / (kTiles * kTileBytes);

/// The tiles of one column range: step k's lie at weights + k * stride.
struct TileRun {
  const std::byte* weights;
  std::ptrdiff_t stride;
  int steps;
};

/// `lines` more lines of what comes next.
inline void prefetch(PrefetchWalk& walk, int lines) {
  for (int line = 0; line < lines; ++line) {
    _mm_prefetch(reinterpret_cast<const char*>(walk.next + 64 * line), _MM_HINT_T1);
  }
  walk.next += 64 * lines;
}

inline __m256i four_codes(const std::byte* x) {
  long long four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm256_set1_epi64x(four);
}

inline __m256i widen(const std::byte* weights) {
  return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(weights)));
}

/// sums[r][column] of kRun tiles beside each other, exactly. `passes` such calls go over a panel, and each
/// prefetches its part.
template <int kRows, int kRun>
inline void dot(const std::byte* const* x, const TileRun& run, PrefetchWalk& walk, int passes,
                std::int64_t sums[kRows][kTileColumns * kRun]) {
  const int lines = (walk.lines_per_step + passes - 1) / passes;
  constexpr int kQuads = 4 * kRun;  // registers of 4 columns, as two lanes each
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kTileColumns * kRun; ++c) sums[r][c] = 0;
  }
  const std::byte* w = run.weights;
  for (int k = 0; k < run.steps;) {
    const int end = k + kExactSteps < run.steps ? k + kExactSteps : run.steps;
    __m256i pairs[kRows][kQuads];
    for (int r = 0; r < kRows; ++r) {
      for (int q = 0; q < kQuads; ++q) pairs[r][q] = _mm256_setzero_si256();
    }
    for (; k < end; ++k, w += run.stride) {
      if (k % kStepsAPrefetch == 0) prefetch(walk, lines);
      __m256i codes[kRows];
#pragma GCC unroll 3
      for (int r = 0; r < kRows; ++r) codes[r] = four_codes(x[r] + 8 * k);
#pragma GCC unroll 8
      for (int q = 0; q < kQuads; ++q) {
        const __m256i wide = widen(w + 16 * q);
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r) {
          pairs[r][q] = _mm256_add_epi32(pairs[r][q], _mm256_madd_epi16(wide, codes[r]));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      alignas(32) std::int32_t lanes[8 * kQuads];
      for (int q = 0; q < kQuads; ++q)
        _mm256_store_si256(reinterpret_cast<__m256i*>(lanes + 8 * q), pairs[r][q]);
      for (int c = 0; c < kTileColumns * kRun; ++c) {
        sums[r][c] += std::int64_t{lanes[2 * c]} + std::int64_t{lanes[2 * c + 1]};
      }
    }
  }
}

template <int kRows, int kRun>
void panel_rows(const std::byte* const* x, const float* x_scale, const std::byte* w, int steps,
                PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  constexpr int kStride = kTiles * kTileBytes;
  const std::byte* end = w + std::ptrdiff_t{kStride} * steps;
  const auto* w_scale = reinterpret_cast<const float*>(end + kTiles * kTileBytes);
  for (int c = 0; c < kTiles; c += kRun) {
    std::int64_t sums[kRows][kTileColumns * kRun];
    dot<kRows, kRun>(x, {w + c * kTileBytes, kStride, steps}, walk, kTiles / kRun, sums);
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kTileColumns * kRun; ++i) {
        const int column = c * kTileColumns + i;
        y[r * y_stride + column] = static_cast<float>(sums[r][i]) * (x_scale[r] * w_scale[column]);
      }
    }
  }
}

void panel(const std::byte* const* x, const float* x_scale, int rows, int, const std::byte* weights,
           int steps, PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  switch (rows) {
    case 1:
      return panel_rows<1, 2>(x, x_scale, weights, steps, walk, y, y_stride);
    case 2:
      return panel_rows<2, 1>(x, x_scale, weights, steps, walk, y, y_stride);
    default:
      return panel_rows<3, 1>(x, x_scale, weights, steps, walk, y, y_stride);
  }
}

void head_row(const std::byte* x, float x_scale, const std::byte* w, int steps, PrefetchWalk& walk,
              float* y) {
  constexpr int kStride = 2 * kTiles * kTileBytes, kPasses = kTiles;  // both planes of a step count as one
  const std::byte* end = w + std::ptrdiff_t{kStride} * steps;
  const auto* w_scale = reinterpret_cast<const float*>(end + 2 * kTiles * kTileBytes);
  for (int c = 0; c < kTiles; ++c) {
    std::int64_t high[1][kTileColumns], low[1][kTileColumns];
    dot<1, 1>(&x, {w + c * kTileBytes, kStride, steps}, walk, kPasses, high);
    dot<1, 1>(&x, {w + (kTiles + c) * kTileBytes, kStride, steps}, walk, kPasses, low);
    for (int i = 0; i < kTileColumns; ++i) {
      const int column = c * kTileColumns + i;
      y[column] = static_cast<float>(256 * high[0][i] + low[0][i]) * (x_scale * w_scale[column]);
    }
  }
}

void head_panel(const std::byte* const* x, const float* x_scale, int rows, int, const std::byte* weights,
                int steps, PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  for (int r = 0; r < rows; ++r) head_row(x[r], x_scale[r], weights, steps, walk, y + r * y_stride);
}

}  // namespace

const MatrixKernels kMatrixAvx2 = {3, panel, head_panel};

}  // namespace grokd::kernels

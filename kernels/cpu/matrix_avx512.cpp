// Codes times packed weights with AVX-512 VNNI: a row's codes are two planes of unsigned bytes of code +
// 32768, so sum q W = 256 * (sum hi W - 128 * sum W) + sum lo W, each sum exact in 32 bits for a group of at
// most 65,793.

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd_avx512.h"

namespace grokd::kernels {
namespace {

constexpr int kTiles = 4;           // of 16 columns in a panel
constexpr int kStep = kTiles * 64;  // bytes of weights for 4 inputs
constexpr int kStepsAPrefetch = kPrefetchStep / kStep;

inline __m512i tile(const std::byte* weights, int c) { return _mm512_load_si512(weights + 64 * c); }

inline __m512i four_inputs(const std::byte* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

inline void prefetch(PrefetchWalk& walk) {
  for (int line = 0; line < walk.lines_per_step; ++line) {
    _mm_prefetch(reinterpret_cast<const char*>(walk.next + 64 * line), _MM_HINT_T1);
  }
  walk.next += 64 * walk.lines_per_step;
}

/// high - sums; the stored sums are the columns' times 128.
inline Ints centred(__m512i high, const std::byte* sums, int c) {
  return {_mm512_sub_epi32(high, _mm512_load_si512(sums + 64 * c))};
}

constexpr int kSmallSumSteps = 128;  // 4 * 128 products of a code and a weight stay below 2^31

/// The end of a panel: scales behind the sums at `w`, kSmall: join_small_planes will do.
template <int kRows, bool kSmall>
inline void finish_rows(const __m512i (&high)[kRows][kTiles], const __m512i (&low)[kRows][kTiles],
                        const float* x_scale, const std::byte* w, float* y, std::ptrdiff_t y_stride) {
  const auto* w_scale = reinterpret_cast<const float*>(w + 64 * kTiles);
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kTiles; ++c) {
      const Ints upper = centred(high[r][c], w, c), lower{low[r][c]};
      const Floats sum = kSmall ? join_small_planes(upper, lower) : join_planes(upper, lower);
      store(y + r * y_stride + 16 * c, sum * (splat(x_scale[r]) * load(w_scale + 16 * c)));
    }
  }
}

template <int kRows>
void panel_rows(const std::byte* const* x, const float* x_scale, int plane, const std::byte* w, int steps,
                PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  const std::byte* row[kRows];
  __m512i high[kRows][kTiles], low[kRows][kTiles];
  for (int r = 0; r < kRows; ++r) {
    row[r] = x[r];
    for (int c = 0; c < kTiles; ++c) high[r][c] = low[r][c] = _mm512_setzero_si512();
  }
  for (int k = 0; k < steps;) {
    prefetch(walk);
    const int end = k + kStepsAPrefetch < steps ? k + kStepsAPrefetch : steps;
    for (; k < end; ++k, w += kStep) {
      __m512i tiles[kTiles];
#pragma GCC unroll 4
      for (int c = 0; c < kTiles; ++c) tiles[c] = tile(w, c);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m512i hi = four_inputs(row[r] + 4 * k), lo = four_inputs(row[r] + plane + 4 * k);
#pragma GCC unroll 4
        for (int c = 0; c < kTiles; ++c) {
          high[r][c] = _mm512_dpbusd_epi32(high[r][c], hi, tiles[c]);
          low[r][c] = _mm512_dpbusd_epi32(low[r][c], lo, tiles[c]);
        }
      }
    }
  }
  if (steps <= kSmallSumSteps) {
    finish_rows<kRows, true>(high, low, x_scale, w, y, y_stride);
  } else {
    finish_rows<kRows, false>(high, low, x_scale, w, y, y_stride);
  }
}

void panel(const std::byte* const* x, const float* x_scale, int rows, int plane, const std::byte* weights,
           int steps, PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  switch (rows) {
    case 1:
      return panel_rows<1>(x, x_scale, plane, weights, steps, walk, y, y_stride);
    case 2:
      return panel_rows<2>(x, x_scale, plane, weights, steps, walk, y, y_stride);
    default:
      return panel_rows<3>(x, x_scale, plane, weights, steps, walk, y, y_stride);
  }
}

/// 65536 * high + 256 * mid + low, rounded once (every step before is exact in binary64).
inline Floats join_three(Ints high, Ints mid, Ints low) {
  const auto join = [](__m256i h, __m256i m, __m256i l) {
    const __m512d upper =
        _mm512_fmadd_pd(_mm512_cvtepi32_pd(h), _mm512_set1_pd(65536.0), _mm512_cvtepi32_pd(l));
    return _mm512_cvtpd_ps(_mm512_fmadd_pd(_mm512_cvtepi32_pd(m), _mm512_set1_pd(256.0), upper));
  };
  const __m256 a =
      join(_mm512_castsi512_si256(high.v), _mm512_castsi512_si256(mid.v), _mm512_castsi512_si256(low.v));
  const __m256 b = join(_mm512_extracti64x4_epi64(high.v, 1), _mm512_extracti64x4_epi64(mid.v, 1),
                        _mm512_extracti64x4_epi64(low.v, 1));
  return {_mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1)};
}

template <int kRows>
void head_rows(const std::byte* const* x, const float* x_scale, int plane, const std::byte* w, int steps,
               PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  const std::byte* row[kRows];
  __m512i high[kRows][kTiles], mid[kRows][kTiles], low[kRows][kTiles];
  for (int r = 0; r < kRows; ++r) {
    row[r] = x[r];
    for (int c = 0; c < kTiles; ++c) high[r][c] = mid[r][c] = low[r][c] = _mm512_setzero_si512();
  }
  for (int k = 0; k < steps;) {
    prefetch(walk);
    const int end = k + kStepsAPrefetch / 2 < steps ? k + kStepsAPrefetch / 2 : steps;
    for (; k < end; ++k, w += 2 * kStep) {
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        const __m512i hi = four_inputs(row[r] + 4 * k), lo = four_inputs(row[r] + plane + 4 * k);
#pragma GCC unroll 4
        for (int c = 0; c < kTiles; ++c) {
          high[r][c] = _mm512_dpbusd_epi32(high[r][c], hi, tile(w, c));
          mid[r][c] = _mm512_dpbusd_epi32(mid[r][c], lo, tile(w, c));
          mid[r][c] = _mm512_dpbusd_epi32(mid[r][c], hi, tile(w, kTiles + c));
          low[r][c] = _mm512_dpbusd_epi32(low[r][c], lo, tile(w, kTiles + c));
        }
      }
    }
  }
  const std::byte *high_sums = w, *low_sums = w + 64 * kTiles;
  const auto* w_scale = reinterpret_cast<const float*>(w + 2 * 64 * kTiles);
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kTiles; ++c) {
      const Floats sum =
          join_three(centred(high[r][c], high_sums, c), centred(mid[r][c], low_sums, c), {low[r][c]});
      store(y + r * y_stride + 16 * c, sum * (splat(x_scale[r]) * load(w_scale + 16 * c)));
    }
  }
}

void head_panel(const std::byte* const* x, const float* x_scale, int rows, int plane,
                const std::byte* weights, int steps, PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  while (rows > 0) {
    const int now = rows >= 2 ? 2 : 1;
    (now == 2 ? head_rows<2> : head_rows<1>)(x, x_scale, plane, weights, steps, walk, y, y_stride);
    x += now, x_scale += now, y += now * y_stride, rows -= now;
  }
}

}  // namespace

const MatrixKernels kMatrixAvx512 = {3, panel, head_panel};

}  // namespace grokd::kernels

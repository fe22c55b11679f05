// Codes times packed weights with AVX-512 VNNI: a row's codes are two planes of unsigned bytes of code +
// 32768, so sum q W = 256 * (sum hi W - 128 * sum W) + sum lo W, each sum exact in 32 bits for a group of at
// most 65,793.

#include <utility>

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

/// A walk shared by several passes. Its lines are spread evenly over the steps: a burst of them would keep
/// the loads that follow waiting.
struct Ahead {
  PrefetchWalk& walk;
  int period;  // steps of all passes for which walk.lines_per_step lines are due

  Ahead(PrefetchWalk& shared, int passes) : walk(shared), period(kStepsAPrefetch * passes) {}
};

/// high - sums; the stored sums are the columns' times 128.
inline Ints centred(__m512i high, const std::byte* sums, int c) {
  return {_mm512_sub_epi32(high, _mm512_load_si512(sums + 64 * c))};
}

constexpr int kSmallSumSteps = 128;  // 4 * 128 products of a code and a weight stay below 2^31
constexpr int kTileRows = 3;         // whose sums fill the registers
constexpr int kMostRows = 12;
constexpr int kChunkSteps = 64;  // 16 KiB of weights: what several tiles of rows find in the nearest cache

/// Sums of a tile of rows between two chunks.
struct KeptSums {
  __m512i high[kTileRows][kTiles], low[kTileRows][kTiles];
};

/// One call's arguments; a tile of rows is a part of them.
struct PanelCall {
  const std::byte* const* x;
  const float* x_scale;
  int plane;
  const std::byte* weights;
  int steps;
  float* y;
  std::ptrdiff_t y_stride;
};

/// The end of a panel: the columns' sums at `w`, the scales behind them.
template <int kRows>
inline void finish_rows(const __m512i (&high)[kRows][kTiles], const __m512i (&low)[kRows][kTiles],
                        const float* x_scale, const std::byte* w, float* y, std::ptrdiff_t y_stride) {
  const auto* w_scale = reinterpret_cast<const float*>(w + 64 * kTiles);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTiles; ++c) {
      const Floats sum = join_planes(centred(high[r][c], w, c), {low[r][c]});
      store(y + r * y_stride + 16 * c, sum * (splat(x_scale[r]) * load(w_scale + 16 * c)));
    }
  }
}

/// Steps [k, end) of rows [first, first + kRows). The arrays stay in registers: all is in one function.
template <int kRows>
void tile_steps(const PanelCall& call, int first, int k, int end, KeptSums& kept, const Ahead& ahead) {
  const std::byte *row[kRows], *w = call.weights + std::ptrdiff_t{kStep} * k;
  const int plane = call.plane;
  __m512i high[kRows][kTiles], low[kRows][kTiles];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    row[r] = call.x[first + r];
#pragma GCC unroll 4
    for (int c = 0; c < kTiles; ++c) {
      high[r][c] = k == 0 ? _mm512_setzero_si512() : kept.high[r][c];
      low[r][c] = k == 0 ? _mm512_setzero_si512() : kept.low[r][c];
    }
  }
  const std::byte* line = ahead.walk.next;
  const int lines = ahead.walk.lines_per_step, period = ahead.period;
  int due = 0;
  for (; k < end; ++k, w += kStep) {
    for (due += lines; due >= period; due -= period, line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
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
  ahead.walk.next = line;
  float* y = call.y + first * call.y_stride;
  if (end < call.steps) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kTiles; ++c) kept.high[r][c] = high[r][c], kept.low[r][c] = low[r][c];
    }
  } else {
    finish_rows<kRows>(high, low, call.x_scale + first, w, y, call.y_stride);
  }
}

constexpr int kShortTileRows = 6;

/// f(0) ... f(kCount - 1) with constant arguments, so that arrays indexed by them are registers.
template <int kCount, class F>
[[gnu::always_inline]] inline void unrolled(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, kIndex>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

/// sum += x * tile. By hand: GCC 12 gives the intrinsic's result another register and spills.
[[gnu::always_inline]] inline void add_products(__m512i& sum, __m512i x, __m512i tile) {
  sum = _mm512_dpbusd_epi32(sum, x, tile);
}

/// sum[r * kTiles + c] += one plane of the rows times a short group.
template <int kRows>
[[gnu::always_inline]] inline void add_plane(const PanelCall& call, int first, int plane, const Ahead& ahead,
                                             __m512i (&sum)[kRows * kTiles]) {
  const std::byte *row[kRows], *w = call.weights;
  unrolled<kRows>([&](auto r) { row[r] = call.x[first + r] + plane; });
  const std::byte* line = ahead.walk.next;
  const int lines = ahead.walk.lines_per_step, period = 2 * ahead.period;
  int due = 0;
  for (int k = 0; k < call.steps; ++k, w += kStep) {
    for (due += lines; due >= period; due -= period, line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
    __m512i tiles[kTiles];
    unrolled<kTiles>([&](auto c) { tiles[c] = tile(w, c); });
    unrolled<kRows>([&](auto r) {
      const __m512i x = four_inputs(row[r] + 4 * k);
      unrolled<kTiles>([&](auto c) { add_products(sum[r * kTiles + c], x, tiles[c]); });
    });
  }
  ahead.walk.next = line;
}

/// A short group's whole sums: below 2^31, so one register holds a sum, and high times 256 is where low
/// starts. The weights are taken twice, from the nearest cache.
template <int kRows>
void short_group(const PanelCall& call, int first, const Ahead& ahead) {
  const std::byte* sums = call.weights + std::ptrdiff_t{kStep} * call.steps;
  __m512i sum[kRows * kTiles];
  unrolled<kRows * kTiles>([&](auto i) { sum[i] = centred(_mm512_setzero_si512(), sums, i % kTiles).v; });
  add_plane<kRows>(call, first, 0, ahead, sum);
  unrolled<kRows * kTiles>([&](auto i) { sum[i] = _mm512_slli_epi32(sum[i], 8); });
  add_plane<kRows>(call, first, call.plane, ahead, sum);
  const auto* w_scale = reinterpret_cast<const float*>(sums + 64 * kTiles);
  unrolled<kRows * kTiles>([&](auto i) {
    const int r = i / kTiles, c = i % kTiles;
    const Floats scale = splat(call.x_scale[first + r]) * load(w_scale + 16 * c);
    store(call.y + (first + r) * call.y_stride + 16 * c, Floats{_mm512_cvtepi32_ps(sum[i])} * scale);
  });
}

void short_panel(const PanelCall& call, int rows, PrefetchWalk& walk) {
  constexpr decltype(&short_group<1>) kShortGroups[] = {short_group<1>, short_group<2>, short_group<3>,
                                                        short_group<4>, short_group<5>, short_group<6>};
  const int tiles = (rows + kShortTileRows - 1) / kShortTileRows;
  const Ahead ahead(walk, tiles);
  for (int t = 0; t < tiles; ++t) {
    const int first = rows * t / tiles, next = rows * (t + 1) / tiles;
    kShortGroups[next - first - 1](call, first, ahead);
  }
}

/// Several tiles of rows take the weights chunk by chunk: a chunk then comes only once from the farther
/// caches.
void panel(const std::byte* const* x, const float* x_scale, int rows, int plane, const std::byte* weights,
           int steps, PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  constexpr decltype(&tile_steps<1>) kTileSteps[] = {tile_steps<1>, tile_steps<2>, tile_steps<3>};
  const PanelCall call{x, x_scale, plane, weights, steps, y, y_stride};
  if (rows > 2 && steps <= kSmallSumSteps) return short_panel(call, rows, walk);
  const int tiles = (rows + kTileRows - 1) / kTileRows, chunk = tiles == 1 ? steps : kChunkSteps;
  const Ahead ahead(walk, tiles);
  KeptSums kept[kMostRows / kTileRows];
  for (int k = 0; k < steps; k += chunk) {
    const int end = k + chunk < steps ? k + chunk : steps;
    for (int t = 0; t < tiles; ++t) {
      const int first = rows * t / tiles, next = rows * (t + 1) / tiles;
      kTileSteps[next - first - 1](call, first, k, end, kept[t], ahead);
    }
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

constexpr int kHeadTileRows = 2;

struct KeptHeadSums {
  __m512i high[kHeadTileRows][kTiles], mid[kHeadTileRows][kTiles], low[kHeadTileRows][kTiles];
};

/// As `tile_steps`, for weights of two planes.
template <int kRows>
void head_steps(const PanelCall& call, int first, int k, int end, KeptHeadSums& kept, const Ahead& ahead) {
  const std::byte *row[kRows], *w = call.weights + std::ptrdiff_t{2 * kStep} * k;
  const int plane = call.plane;
  __m512i high[kRows][kTiles], mid[kRows][kTiles], low[kRows][kTiles];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    row[r] = call.x[first + r];
#pragma GCC unroll 4
    for (int c = 0; c < kTiles; ++c) {
      high[r][c] = k == 0 ? _mm512_setzero_si512() : kept.high[r][c];
      mid[r][c] = k == 0 ? _mm512_setzero_si512() : kept.mid[r][c];
      low[r][c] = k == 0 ? _mm512_setzero_si512() : kept.low[r][c];
    }
  }
  const std::byte* line = ahead.walk.next;
  const int lines = 2 * ahead.walk.lines_per_step, period = ahead.period;
  int due = 0;
  for (; k < end; ++k, w += 2 * kStep) {
    for (due += lines; due >= period; due -= period, line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
#pragma GCC unroll 4
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
  ahead.walk.next = line;
  if (end < call.steps) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kTiles; ++c) {
        kept.high[r][c] = high[r][c], kept.mid[r][c] = mid[r][c], kept.low[r][c] = low[r][c];
      }
    }
    return;
  }
  const std::byte *high_sums = w, *low_sums = w + 64 * kTiles;
  const auto* w_scale = reinterpret_cast<const float*>(w + 2 * 64 * kTiles);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTiles; ++c) {
      const Floats sum =
          join_three(centred(high[r][c], high_sums, c), centred(mid[r][c], low_sums, c), {low[r][c]});
      store(call.y + (first + r) * call.y_stride + 16 * c,
            sum * (splat(call.x_scale[first + r]) * load(w_scale + 16 * c)));
    }
  }
}

void head_panel(const std::byte* const* x, const float* x_scale, int rows, int plane,
                const std::byte* weights, int steps, PrefetchWalk& walk, float* y, std::ptrdiff_t y_stride) {
  const PanelCall call{x, x_scale, plane, weights, steps, y, y_stride};
  const int tiles = (rows + kHeadTileRows - 1) / kHeadTileRows, chunk = tiles == 1 ? steps : kChunkSteps / 2;
  const Ahead ahead(walk, tiles);
  KeptHeadSums kept[kMostRows / kHeadTileRows];
  for (int k = 0; k < steps; k += chunk) {
    const int end = k + chunk < steps ? k + chunk : steps;
    for (int t = 0; t < tiles; ++t) {
      const int first = rows * t / tiles, next = rows * (t + 1) / tiles;
      (next - first == 2 ? head_steps<2> : head_steps<1>)(call, first, k, end, kept[t], ahead);
    }
  }
}

}  // namespace

const MatrixKernels kMatrixAvx512 = {kMostRows, panel, head_panel};

}  // namespace grokd::kernels

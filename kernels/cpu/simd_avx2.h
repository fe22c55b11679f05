#pragma once
// 16 floats or 32-bit integers as two AVX2 registers. Include in *_avx2.cpp only (see simd_avx512.h).

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace grokd::kernels {
namespace {

struct Floats {
  __m256 v[2];
};
struct Ints {
  __m256i v[2];
};
struct Mask {
  __m256i m[2];
};

inline __m256i half_mask(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Mask first_lanes(int n) { return {{half_mask(n), half_mask(n - 8)}}; }

inline Floats splat(float x) { return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
inline Floats load(const float* p) { return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}}; }
inline Floats load(const float* p, int n) {
  return {{_mm256_maskload_ps(p, half_mask(n)), _mm256_maskload_ps(p + 8, half_mask(n - 8))}};
}
inline void store(float* p, Floats a) {
  _mm256_storeu_ps(p, a.v[0]);
  _mm256_storeu_ps(p + 8, a.v[1]);
}
inline void store(float* p, Floats a, int n) {
  _mm256_maskstore_ps(p, half_mask(n), a.v[0]);
  _mm256_maskstore_ps(p + 8, half_mask(n - 8), a.v[1]);
}
inline Floats operator+(Floats a, Floats b) {
  return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}};
}
inline Floats operator-(Floats a, Floats b) {
  return {{_mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1])}};
}
inline Floats operator*(Floats a, Floats b) {
  return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}};
}
inline Floats operator/(Floats a, Floats b) {
  return {{_mm256_div_ps(a.v[0], b.v[0]), _mm256_div_ps(a.v[1], b.v[1])}};
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}
inline Floats nearest(Floats a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {{_mm256_round_ps(a.v[0], kMode), _mm256_round_ps(a.v[1], kMode)}};
}
/// Where either is NaN the result is b: the bounds go first.
inline Floats smaller(Floats a, Floats b) {
  return {{_mm256_min_ps(a.v[0], b.v[0]), _mm256_min_ps(a.v[1], b.v[1])}};
}
inline Floats larger(Floats a, Floats b) {
  return {{_mm256_max_ps(a.v[0], b.v[0]), _mm256_max_ps(a.v[1], b.v[1])}};
}
inline __m256 power_of_two(__m256i exponent) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
}
inline __m256 times_power_of_two(__m256 p, __m256 n) {
  const __m256i k = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(k, 1);
  return _mm256_mul_ps(_mm256_mul_ps(p, power_of_two(_mm256_sub_epi32(k, half))), power_of_two(half));
}
/// p * 2^n in two factors, so that only the second product rounds; n a whole number.
inline Floats times_power_of_two(Floats p, Floats n) {
  return {{times_power_of_two(p.v[0], n.v[0]), times_power_of_two(p.v[1], n.v[1])}};
}
inline Floats negative(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {{_mm256_xor_ps(a.v[0], sign), _mm256_xor_ps(a.v[1], sign)}};
}
inline Floats magnitude(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {{_mm256_andnot_ps(sign, a.v[0]), _mm256_andnot_ps(sign, a.v[1])}};
}
inline Floats with_sign_of(Floats a, Floats sign) {
  const __m256 s = _mm256_set1_ps(-0.0f);
  const Floats m = magnitude(a);
  return {
      {_mm256_or_ps(m.v[0], _mm256_and_ps(s, sign.v[0])), _mm256_or_ps(m.v[1], _mm256_and_ps(s, sign.v[1]))}};
}
inline Mask less(Floats a, Floats b) {
  return {{_mm256_castps_si256(_mm256_cmp_ps(a.v[0], b.v[0], _CMP_LT_OQ)),
           _mm256_castps_si256(_mm256_cmp_ps(a.v[1], b.v[1], _CMP_LT_OQ))}};
}
inline Mask equal(Floats a, Floats b) {
  return {{_mm256_castps_si256(_mm256_cmp_ps(a.v[0], b.v[0], _CMP_EQ_OQ)),
           _mm256_castps_si256(_mm256_cmp_ps(a.v[1], b.v[1], _CMP_EQ_OQ))}};
}
inline Floats choose(Mask m, Floats yes, Floats no) {
  return {{_mm256_blendv_ps(no.v[0], yes.v[0], _mm256_castsi256_ps(m.m[0])),
           _mm256_blendv_ps(no.v[1], yes.v[1], _mm256_castsi256_ps(m.m[1]))}};
}
inline Mask operator&(Mask a, Mask b) {
  return {{_mm256_and_si256(a.m[0], b.m[0]), _mm256_and_si256(a.m[1], b.m[1])}};
}
inline Mask without(Mask a, Mask b) {
  return {{_mm256_andnot_si256(b.m[0], a.m[0]), _mm256_andnot_si256(b.m[1], a.m[1])}};
}

inline bool any(Mask m) {
  const __m256i either = _mm256_or_si256(m.m[0], m.m[1]);
  return _mm256_testz_si256(either, either) == 0;
}
inline bool all(Mask m) { return _mm256_movemask_epi8(_mm256_and_si256(m.m[0], m.m[1])) == -1; }
inline std::uint32_t bits(Mask m) {
  const int low = _mm256_movemask_ps(_mm256_castsi256_ps(m.m[0]));
  const int high = _mm256_movemask_ps(_mm256_castsi256_ps(m.m[1]));
  return static_cast<std::uint32_t>(low | high << 8);
}
inline float lane0(Floats a) { return _mm256_cvtss_f32(a.v[0]); }
/// l[j] + l[j+s] for s = 8, 4, 2, 1.
inline float tree16(Floats a) {
  const __m256 s8 = _mm256_add_ps(a.v[0], a.v[1]);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
inline float largest(Floats a) {
  const __m256 m8 = _mm256_max_ps(a.v[0], a.v[1]);
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

inline Ints splat_int(std::int32_t x) { return {{_mm256_set1_epi32(x), _mm256_set1_epi32(x)}}; }
inline __m256i load8(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline Ints load(const std::int32_t* p) { return {{load8(p), load8(p + 8)}}; }
inline Ints load_pairs(const std::int16_t* p) { return {{load8(p), load8(p + 16)}}; }
inline __m256i widen16(const std::int8_t* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Ints load_pairs(const std::int8_t* p) { return {{widen16(p), widen16(p + 16)}}; }
inline void store(std::int32_t* p, Ints a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.v[1]);
}
inline Ints operator+(Ints a, Ints b) {
  return {{_mm256_add_epi32(a.v[0], b.v[0]), _mm256_add_epi32(a.v[1], b.v[1])}};
}
inline Ints magnitude_bits(Floats a) {
  const Floats m = magnitude(a);
  return {{_mm256_castps_si256(m.v[0]), _mm256_castps_si256(m.v[1])}};
}
inline Ints larger(Ints a, Ints b) {
  return {{_mm256_max_epi32(a.v[0], b.v[0]), _mm256_max_epi32(a.v[1], b.v[1])}};
}
inline std::int32_t largest(Ints a) {
  const __m256i m8 = _mm256_max_epi32(a.v[0], a.v[1]);
  const __m128i m4 = _mm_max_epi32(_mm256_castsi256_si128(m8), _mm256_extracti128_si256(m8, 1));
  const __m128i m2 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(m2, _mm_shuffle_epi32(m2, 0xb1)));
}
/// rint.
inline Ints to_ints(Floats a) { return {{_mm256_cvtps_epi32(a.v[0]), _mm256_cvtps_epi32(a.v[1])}}; }
inline Floats to_floats(Ints a) { return {{_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}}; }
inline Ints bits(Floats a) { return {{_mm256_castps_si256(a.v[0]), _mm256_castps_si256(a.v[1])}}; }
/// (2^32 - 1 - p[i]) / 2, rounded down.
inline Ints half_complement(const std::uint32_t* p) {
  const __m256i ones = _mm256_set1_epi32(-1);
  return {{_mm256_srli_epi32(_mm256_xor_si256(load8(p), ones), 1),
           _mm256_srli_epi32(_mm256_xor_si256(load8(p + 8), ones), 1)}};
}
inline Ints only(Mask m, Ints a) {
  return {{_mm256_and_si256(m.m[0], a.v[0]), _mm256_and_si256(m.m[1], a.v[1])}};
}
/// acc + a0*b0 + a1*b1 for the two 16-bit halves of each lane.
inline Ints dot_pairs(Ints acc, Ints a, Ints b) {
  return {{_mm256_add_epi32(acc.v[0], _mm256_madd_epi16(a.v[0], b.v[0])),
           _mm256_add_epi32(acc.v[1], _mm256_madd_epi16(a.v[1], b.v[1]))}};
}
/// The sum is cut at bit 20 into two halves that a float holds exactly, which one fma joins.
inline __m256 join_planes(__m256i high, __m256i low) {
  const __m256i carried = _mm256_add_epi32(high, _mm256_srai_epi32(low, 8));
  const __m256i wrapped = _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
  const __m256i lower = _mm256_and_si256(wrapped, _mm256_set1_epi32((1 << 20) - 1));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_srai_epi32(carried, 12)), _mm256_set1_ps(0x1p20f),
                         _mm256_cvtepi32_ps(lower));
}
/// 256 * high + low, rounded once; |high| < 2^30.
inline Floats join_planes(Ints high, Ints low) {
  return {{join_planes(high.v[0], low.v[0]), join_planes(high.v[1], low.v[1])}};
}
inline void store_16bit(std::int16_t* p, Ints a) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.v[0], a.v[1]), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
}
inline Ints load_16bit(const std::int16_t* p) {
  return {{_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
           _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))}};
}
inline Ints high_plane(Ints a) { return {{_mm256_srai_epi32(a.v[0], 8), _mm256_srai_epi32(a.v[1], 8)}}; }
inline Ints low_plane(Ints a) {
  const __m256i k = _mm256_set1_epi32(255);
  return {{_mm256_and_si256(a.v[0], k), _mm256_and_si256(a.v[1], k)}};
}

// Activation codes: 16-bit numbers in order.
inline void store_codes(std::byte* row, int, int i, Ints code) {
  store_16bit(reinterpret_cast<std::int16_t*>(row) + i, code);
}
inline Ints load_codes(const std::byte* row, int, int i) {
  return load_16bit(reinterpret_cast<const std::int16_t*>(row) + i);
}

/// 4 whole numbers from 0 to below 2^51, as integers: in a double of 2^52 and more the last bit counts 1.
inline __m256i whole_numbers(__m128 a) {
  const __m256d shift = _mm256_set1_pd(0x1p52);
  const __m256d shifted = _mm256_add_pd(_mm256_cvtps_pd(a), shift);
  return _mm256_sub_epi64(_mm256_castpd_si256(shifted), _mm256_castpd_si256(shift));
}

/// Exact sum of lanes taken as whole numbers, none negative.
struct RoundedSum {
  __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};

  void add(Floats a) {
    const Floats whole = nearest(a);
    for (int half = 0; half < 2; ++half) {
      const __m128 low = _mm256_castps256_ps128(whole.v[half]),
                   high = _mm256_extractf128_ps(whole.v[half], 1);
      sum[2 * half] = _mm256_add_epi64(sum[2 * half], whole_numbers(low));
      sum[2 * half + 1] = _mm256_add_epi64(sum[2 * half + 1], whole_numbers(high));
    }
  }
  /// p[0..15] where the mask is set.
  void add(const std::uint64_t* p, Mask m) {
    for (int half = 0; half < 2; ++half) {
      const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(m.m[half]));
      const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(m.m[half], 1));
      sum[2 * half] = _mm256_add_epi64(sum[2 * half], _mm256_and_si256(load8(p + 8 * half), low));
      sum[2 * half + 1] =
          _mm256_add_epi64(sum[2 * half + 1], _mm256_and_si256(load8(p + 8 * half + 4), high));
    }
  }
  std::uint64_t total() const {
    const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
    alignas(32) std::uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), all);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
};
inline void store_rounded(std::uint64_t* p, Floats a) {
  const Floats whole = nearest(a);
  for (int half = 0; half < 2; ++half) {
    auto* out = reinterpret_cast<__m256i*>(p + 8 * half);
    _mm256_storeu_si256(out, whole_numbers(_mm256_castps256_ps128(whole.v[half])));
    _mm256_storeu_si256(out + 1, whole_numbers(_mm256_extractf128_ps(whole.v[half], 1)));
  }
}

}  // namespace
}  // namespace grokd::kernels

#pragma once
// 16 floats or 32-bit integers as AVX-512 registers. Include in *_avx512.cpp only: everything here has
// internal linkage, so that no function compiled for one instruction set can be linked into code for another.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace grokd::kernels {
namespace {

struct Floats {
  __m512 v;
};
struct Ints {
  __m512i v;
};
struct Mask {
  __mmask16 m;
};

inline __mmask16 first_bits(int n) {
  return n >= 16 ? 0xffff : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1);
}
inline Mask first_lanes(int n) { return {first_bits(n)}; }

inline Floats splat(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Floats load(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_bits(n), p)}; }
inline void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline void store(float* p, Floats a, int n) { _mm512_mask_storeu_ps(p, first_bits(n), a.v); }
inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats nearest(Floats a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// `a` where either is NaN is b: the bounds go first.
inline Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
/// p * 2^n rounded once; n a whole number.
inline Floats times_power_of_two(Floats p, Floats n) { return {_mm512_scalef_ps(p.v, n.v)}; }
inline Floats negative(Floats a) {
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(INT32_MIN)))};
}
inline Floats magnitude(Floats a) { return {_mm512_abs_ps(a.v)}; }
inline Floats with_sign_of(Floats a, Floats sign) {
  const __m512i s = _mm512_set1_epi32(INT32_MIN);
  return {_mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(s, _mm512_castps_si512(sign.v), _mm512_castps_si512(a.v), 0xca))};
}
inline Mask less(Floats a, Floats b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask equal(Floats a, Floats b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Floats choose(Mask m, Floats yes, Floats no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }
inline Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & b.m)}; }
inline Mask without(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & ~b.m)}; }

inline bool any(Mask m) { return m.m != 0; }
inline bool all(Mask m) { return m.m == 0xffff; }
inline std::uint32_t bits(Mask m) { return m.m; }
inline float lane0(Floats a) { return _mm512_cvtss_f32(a.v); }
/// l[j] + l[j+s] for s = 8, 4, 2, 1.
inline float tree16(Floats a) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
inline float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }

inline Ints splat_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
inline Ints load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline Ints load_pairs(const std::int16_t* p) { return {_mm512_loadu_si512(p)}; }
inline Ints load_pairs(const std::int8_t* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store(std::int32_t* p, Ints a) { _mm512_storeu_si512(p, a.v); }
inline Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Ints magnitude_bits(Floats a) {
  return {_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff))};
}
inline Ints larger(Ints a, Ints b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline std::int32_t largest(Ints a) { return _mm512_reduce_max_epi32(a.v); }
/// rint.
inline Ints to_ints(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }
inline Floats to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Ints bits(Floats a) { return {_mm512_castps_si512(a.v)}; }
/// (2^32 - 1 - p[i]) / 2, rounded down.
inline Ints half_complement(const std::uint32_t* p) {
  const __m512i word = _mm512_loadu_si512(p);
  return {_mm512_srli_epi32(_mm512_xor_si512(word, _mm512_set1_epi32(-1)), 1)};
}
inline Ints only(Mask m, Ints a) { return {_mm512_maskz_mov_epi32(m.m, a.v)}; }
/// acc + a0*b0 + a1*b1 for the two 16-bit halves of each lane.
inline Ints dot_pairs(Ints acc, Ints a, Ints b) { return {_mm512_dpwssd_epi32(acc.v, a.v, b.v)}; }
/// 256 * high + low, rounded once; |high| < 2^30. The sum is cut at bit 20 into two halves that a float holds
/// exactly, which one fma joins.
inline Floats join_planes(Ints high, Ints low) {
  const __m512i carried = _mm512_add_epi32(high.v, _mm512_srai_epi32(low.v, 8));
  const __m512i wrapped = _mm512_add_epi32(_mm512_slli_epi32(high.v, 8), low.v);
  const __m512i lower = _mm512_and_si512(wrapped, _mm512_set1_epi32((1 << 20) - 1));
  return {_mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(carried, 12)), _mm512_set1_ps(0x1p20f),
                          _mm512_cvtepi32_ps(lower))};
}
/// The same where 256 * high + low is below 2^31.
inline Floats join_small_planes(Ints high, Ints low) {
  return {_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high.v, 8), low.v))};
}
inline void store_16bit(std::int16_t* p, Ints a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
inline Ints load_16bit(const std::int16_t* p) {
  return {_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Ints high_plane(Ints a) { return {_mm512_srai_epi32(a.v, 8)}; }
inline Ints low_plane(Ints a) { return {_mm512_and_si512(a.v, _mm512_set1_epi32(255))}; }

// Activation codes: code + 32768 as two planes of bytes, high first, `plane` bytes apart.
inline void store_codes(std::byte* row, int plane, int i, Ints code) {
  const __m512i shifted = _mm512_add_epi32(code.v, _mm512_set1_epi32(32768));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(shifted, 8)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row + plane + i), _mm512_cvtepi32_epi8(shifted));
}
inline Ints load_codes(const std::byte* row, int plane, int i) {
  const __m512i high = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i)));
  const __m512i low =
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + plane + i)));
  return {_mm512_sub_epi32(_mm512_or_si512(_mm512_slli_epi32(high, 8), low), _mm512_set1_epi32(32768))};
}

/// Exact sum of lanes taken as whole numbers; each is below 2^41.
struct RoundedSum {
  __m512i low = _mm512_setzero_si512(), high = _mm512_setzero_si512();

  void add(Floats a) {
    low = _mm512_add_epi64(low, _mm512_cvtps_epi64(_mm512_castps512_ps256(a.v)));
    high = _mm512_add_epi64(high, _mm512_cvtps_epi64(_mm512_extractf32x8_ps(a.v, 1)));
  }
  /// p[0..15] where the mask is set.
  void add(const std::uint64_t* p, Mask m) {
    low = _mm512_add_epi64(low, _mm512_maskz_loadu_epi64(static_cast<__mmask8>(m.m), p));
    high = _mm512_add_epi64(high, _mm512_maskz_loadu_epi64(static_cast<__mmask8>(m.m >> 8), p + 8));
  }
  std::uint64_t total() const {
    return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(low, high)));
  }
};
inline void store_rounded(std::uint64_t* p, Floats a) {
  _mm512_storeu_si512(p, _mm512_cvtps_epi64(_mm512_castps512_ps256(a.v)));
  _mm512_storeu_si512(p + 8, _mm512_cvtps_epi64(_mm512_extractf32x8_ps(a.v, 1)));
}

}  // namespace
}  // namespace grokd::kernels

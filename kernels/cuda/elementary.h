#pragma once
// docs/numerics.md, section 2, on the device. Compiled without contraction; fused only where written.

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace grokd::kernels::cuda {

__device__ inline float infinity() { return __uint_as_float(0x7f800000u); }
__device__ inline float not_a_number() { return __uint_as_float(0x7fffffffu); }

/// 2^n for -126 <= n <= 127.
__device__ inline float power_of_two(int n) { return __uint_as_float(static_cast<unsigned>(n + 127) << 23); }

__device__ inline float exp_f32(float x) {
  if (isnan(x)) return x;
  if (x > 89.0f) return infinity();
  if (x < -104.0f) return 0.0f;
  const float n = rintf(x * 0x1.715476p+0f);
  float r = __fmaf_rn(n, -0x1.63p-1f, x);
  r = __fmaf_rn(n, 0x1.bd0106p-13f, r);
  float q = 0x1.6db5bcp-10f;
  q = __fmaf_rn(q, r, 0x1.123c78p-7f);
  q = __fmaf_rn(q, r, 0x1.55545cp-5f);
  q = __fmaf_rn(q, r, 0x1.55548ep-3f);
  q = __fmaf_rn(q, r, 0x1p-1f);
  const float p = 1.0f + __fmaf_rn(r * r, q, r);
  const int exponent = static_cast<int>(n);
  const int half = exponent >> 1;
  return (p * power_of_two(exponent - half)) * power_of_two(half);
}

__device__ inline float tanh_f32(float x) {
  if (isnan(x)) return x;
  const float z = fabsf(x);
  if (z < 0.625f) {
    const float s = x * x;
    float q = -0x1.76ac18p-8f;
    q = __fmaf_rn(q, s, 0x1.5256d6p-6f);
    q = __fmaf_rn(q, s, -0x1.b84448p-5f);
    q = __fmaf_rn(q, s, 0x1.110768p-3f);
    q = __fmaf_rn(q, s, -0x1.555534p-2f);
    return __fmaf_rn(x * s, q, x);
  }
  return copysignf(1.0f - __fdiv_rn(2.0f, exp_f32(z + z) + 1.0f), x);
}

__device__ inline float gelu_f32(float u) {
  const float slope = __fmaf_rn(u * u, 0x1.6e4e26p-5f, 1.0f);
  return __fdiv_rn(u, 1.0f + exp_f32((u * -0x1.988454p+0f) * slope));
}

__device__ inline float silu_f32(float u) { return __fdiv_rn(u, 1.0f + exp_f32(-u)); }

/// c * tanh(x * inverse), inverse = f32(1/c); c = 0: x unchanged.
struct SoftCap {
  float cap = 0, inverse = 0;
};
inline SoftCap make_soft_cap(float cap) {
  return {cap, cap == 0.0f ? 0.0f : static_cast<float>(1.0 / static_cast<double>(cap))};
}
__device__ inline float soft_cap(float x, const SoftCap& c) {
  return c.cap == 0.0f ? x : c.cap * tanh_f32(x * c.inverse);
}

/// x positive and normal.
__device__ inline double log_f64(double x) {
  constexpr long long kFraction = (1LL << 52) - 1;
  constexpr long long kSqrtTwoFraction = 0x6a09e667f3bcd;
  const long long bits = __double_as_longlong(x);
  const long long fraction = bits & kFraction;
  const bool upper = fraction > kSqrtTwoFraction;
  const double k = static_cast<double>(static_cast<int>(bits >> 52) - 1023 + (upper ? 1 : 0));
  const double m = __longlong_as_double(fraction | (upper ? 1022LL : 1023LL) << 52);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double h = (0.5 * f) * f;
  double series = 2.0 / 23.0;
  for (int j = 10; j >= 1; --j) series = series * z + 2.0 / (2 * j + 1);
  series = series * z;
  return k * 0x1.62e42feep-1 - ((h - (s * (h + series) + k * 0x1.a39ef35793c76p-33)) - f);
}

}  // namespace grokd::kernels::cuda

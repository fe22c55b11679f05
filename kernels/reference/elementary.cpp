#include "kernels/reference/elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace grokd::kernels {
namespace {

/// 2^n for -126 <= n <= 127.
float power_of_two(int n) { return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23); }

}  // namespace

float exp_f32(float x) {
  if (std::isnan(x)) return x;
  if (x > 89.0f) return std::numeric_limits<float>::infinity();
  if (x < -104.0f) return 0.0f;
  const float n = std::rint(x * 0x1.715476p+0f);
  float r = std::fma(n, -0x1.63p-1f, x);
  r = std::fma(n, 0x1.bd0106p-13f, r);
  float q = 0x1.6db5bcp-10f;
  q = std::fma(q, r, 0x1.123c78p-7f);
  q = std::fma(q, r, 0x1.55545cp-5f);
  q = std::fma(q, r, 0x1.55548ep-3f);
  q = std::fma(q, r, 0x1p-1f);
  const float p = 1.0f + std::fma(r * r, q, r);
  // n runs from -150 to 128. The first factor is exact, so only the second rounds.
  const int exponent = static_cast<int>(n);
  const int half = exponent >> 1;
  return (p * power_of_two(exponent - half)) * power_of_two(half);
}

float tanh_f32(float x) {
  if (std::isnan(x)) return x;
  const float z = std::fabs(x);
  if (z < 0.625f) {
    const float s = x * x;
    float q = -0x1.76ac18p-8f;
    q = std::fma(q, s, 0x1.5256d6p-6f);
    q = std::fma(q, s, -0x1.b84448p-5f);
    q = std::fma(q, s, 0x1.110768p-3f);
    q = std::fma(q, s, -0x1.555534p-2f);
    return std::fma(x * s, q, x);
  }
  return std::copysign(1.0f - 2.0f / (exp_f32(z + z) + 1.0f), x);
}

double log_f64(double x) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  constexpr std::uint64_t kSqrtTwoFraction = 0x6a09e667f3bcd;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t fraction = bits & kFraction;
  const bool upper = fraction > kSqrtTwoFraction;  // m is in (c/2, c] with c = sqrt(2)
  const double k = static_cast<double>(static_cast<int>(bits >> 52) - 1023 + (upper ? 1 : 0));
  const double m = std::bit_cast<double>(fraction | (std::uint64_t{upper ? 1022u : 1023u} << 52));

  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double h = (0.5 * f) * f;
  double series = 2.0 / 23.0;
  for (int j = 10; j >= 1; --j) series = series * z + 2.0 / (2 * j + 1);
  series = series * z;
  return k * 0x1.62e42feep-1 - ((h - (s * (h + series) + k * 0x1.a39ef35793c76p-33)) - f);
}

float gelu_f32(float u) {
  const float slope = std::fma(u * u, 0x1.6e4e26p-5f, 1.0f);
  return u / (1.0f + exp_f32((u * -0x1.988454p+0f) * slope));
}

float silu_f32(float u) { return u / (1.0f + exp_f32(-u)); }

float soft_cap(float x, float c) {
  if (c == 0.0f) return x;
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(c));
  return c * tanh_f32(x * inverse);
}

}  // namespace grokd::kernels

#pragma once
// 16 floats or 32-bit integers as plain arrays: what is left where neither AVX2 nor AVX-512 exists.
// Include in *_scalar.cpp only (see simd_avx512.h).

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace grokd::kernels {
namespace {

constexpr int kLanes = 16;

struct Floats {
  float v[kLanes];
};
struct Ints {
  std::int32_t v[kLanes];
};
struct Mask {
  bool m[kLanes];
};

template <class To, class Function>
inline To lanes(const Function& f) {
  To out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = f(i);
  return out;
}
template <class Function>
inline Mask mask(const Function& f) {
  Mask out;
  for (int i = 0; i < kLanes; ++i) out.m[i] = f(i);
  return out;
}

inline Mask first_lanes(int n) {
  return mask([&](int i) { return i < n; });
}
inline Floats splat(float x) {
  return lanes<Floats>([&](int) { return x; });
}
inline Floats load(const float* p) {
  return lanes<Floats>([&](int i) { return p[i]; });
}
inline Floats load(const float* p, int n) {
  return lanes<Floats>([&](int i) { return i < n ? p[i] : 0.0f; });
}
inline void store(float* p, Floats a) {
  for (int i = 0; i < kLanes; ++i) p[i] = a.v[i];
}
inline void store(float* p, Floats a, int n) {
  for (int i = 0; i < kLanes && i < n; ++i) p[i] = a.v[i];
}
inline Floats operator+(Floats a, Floats b) {
  return lanes<Floats>([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats operator-(Floats a, Floats b) {
  return lanes<Floats>([&](int i) { return a.v[i] - b.v[i]; });
}
inline Floats operator*(Floats a, Floats b) {
  return lanes<Floats>([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats operator/(Floats a, Floats b) {
  return lanes<Floats>([&](int i) { return a.v[i] / b.v[i]; });
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return lanes<Floats>([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline Floats nearest(Floats a) {
  return lanes<Floats>([&](int i) { return __builtin_rintf(a.v[i]); });
}
/// Where either is NaN the result is b: the bounds go first.
inline Floats smaller(Floats a, Floats b) {
  return lanes<Floats>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats larger(Floats a, Floats b) {
  return lanes<Floats>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline float power_of_two(std::int32_t exponent) { return std::bit_cast<float>((exponent + 127) << 23); }
/// p * 2^n in two factors, so that only the second product rounds; n a whole number, or NaN as p is.
inline Floats times_power_of_two(Floats p, Floats n) {
  return lanes<Floats>([&](int i) {
    const std::int32_t k = n.v[i] == n.v[i] ? static_cast<std::int32_t>(n.v[i]) : 0;
    const std::int32_t half = k >> 1;
    return (p.v[i] * power_of_two(k - half)) * power_of_two(half);
  });
}
inline Floats negative(Floats a) {
  return lanes<Floats>([&](int i) { return -a.v[i]; });
}
inline Floats magnitude(Floats a) {
  return lanes<Floats>([&](int i) { return __builtin_fabsf(a.v[i]); });
}
inline Floats with_sign_of(Floats a, Floats sign) {
  return lanes<Floats>([&](int i) { return __builtin_copysignf(a.v[i], sign.v[i]); });
}
inline Mask less(Floats a, Floats b) {
  return mask([&](int i) { return a.v[i] < b.v[i]; });
}
inline Mask equal(Floats a, Floats b) {
  return mask([&](int i) { return a.v[i] == b.v[i]; });
}
inline Floats choose(Mask m, Floats yes, Floats no) {
  return lanes<Floats>([&](int i) { return m.m[i] ? yes.v[i] : no.v[i]; });
}
inline Mask operator&(Mask a, Mask b) {
  return mask([&](int i) { return a.m[i] && b.m[i]; });
}
inline Mask without(Mask a, Mask b) {
  return mask([&](int i) { return a.m[i] && !b.m[i]; });
}

inline bool all(Mask m) {
  for (const bool one : m.m) {
    if (!one) return false;
  }
  return true;
}
inline bool any(Mask m) {
  for (const bool one : m.m) {
    if (one) return true;
  }
  return false;
}
inline std::uint32_t bits(Mask m) {
  std::uint32_t set = 0;
  for (int i = 0; i < kLanes; ++i) set |= static_cast<std::uint32_t>(m.m[i]) << i;
  return set;
}
inline float lane0(Floats a) { return a.v[0]; }
/// l[j] + l[j+s] for s = 8, 4, 2, 1.
inline float tree16(Floats a) {
  for (int s = 8; s > 0; s /= 2) {
    for (int j = 0; j < s; ++j) a.v[j] = a.v[j] + a.v[j + s];
  }
  return a.v[0];
}
inline float largest(Floats a) {
  float best = a.v[0];
  for (const float x : a.v) best = x > best ? x : best;
  return best;
}

inline Ints splat_int(std::int32_t x) {
  return lanes<Ints>([&](int) { return x; });
}
inline Ints load(const std::int32_t* p) {
  return lanes<Ints>([&](int i) { return p[i]; });
}
template <class Code>
inline std::int32_t pair(const Code* p) {
  return static_cast<std::int32_t>(static_cast<std::uint16_t>(p[0]) |
                                   static_cast<std::uint32_t>(static_cast<std::uint16_t>(p[1])) << 16);
}
template <class Code>
inline Ints load_pairs(const Code* p) {
  return lanes<Ints>([&](int i) { return pair(p + 2 * i); });
}
inline void store(std::int32_t* p, Ints a) {
  for (int i = 0; i < kLanes; ++i) p[i] = a.v[i];
}
inline Ints operator+(Ints a, Ints b) {
  return lanes<Ints>([&](int i) { return a.v[i] + b.v[i]; });
}
inline Ints magnitude_bits(Floats a) {
  return lanes<Ints>([&](int i) { return std::bit_cast<std::int32_t>(a.v[i]) & 0x7fffffff; });
}
inline Ints larger(Ints a, Ints b) {
  return lanes<Ints>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline std::int32_t largest(Ints a) {
  std::int32_t best = a.v[0];
  for (const std::int32_t x : a.v) best = x > best ? x : best;
  return best;
}
/// rint.
inline Ints to_ints(Floats a) {
  return lanes<Ints>([&](int i) { return static_cast<std::int32_t>(__builtin_rintf(a.v[i])); });
}
inline Floats to_floats(Ints a) {
  return lanes<Floats>([&](int i) { return static_cast<float>(a.v[i]); });
}
inline Ints bits(Floats a) {
  return lanes<Ints>([&](int i) { return std::bit_cast<std::int32_t>(a.v[i]); });
}
/// (2^32 - 1 - p[i]) / 2, rounded down.
inline Ints half_complement(const std::uint32_t* p) {
  return lanes<Ints>([&](int i) { return static_cast<std::int32_t>(~p[i] >> 1); });
}
inline Ints only(Mask m, Ints a) {
  return lanes<Ints>([&](int i) { return m.m[i] ? a.v[i] : 0; });
}
inline std::int32_t low_half(std::int32_t x) { return static_cast<std::int16_t>(x & 0xffff); }
/// acc + a0*b0 + a1*b1 for the two 16-bit halves of each lane.
inline Ints dot_pairs(Ints acc, Ints a, Ints b) {
  return lanes<Ints>([&](int i) {
    return acc.v[i] + low_half(a.v[i]) * low_half(b.v[i]) + (a.v[i] >> 16) * (b.v[i] >> 16);
  });
}
/// 256 * high + low, rounded once.
inline Floats join_planes(Ints high, Ints low) {
  return lanes<Floats>(
      [&](int i) { return static_cast<float>(std::int64_t{256} * high.v[i] + std::int64_t{low.v[i]}); });
}
inline void store_16bit(std::int16_t* p, Ints a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::int16_t>(a.v[i]);
}
inline Ints load_16bit(const std::int16_t* p) {
  return lanes<Ints>([&](int i) { return std::int32_t{p[i]}; });
}
inline Ints high_plane(Ints a) {
  return lanes<Ints>([&](int i) { return a.v[i] >> 8; });
}
inline Ints low_plane(Ints a) {
  return lanes<Ints>([&](int i) { return a.v[i] & 255; });
}

// Activation codes: 16-bit numbers in order.
inline void store_codes(std::byte* row, int, int i, Ints code) {
  store_16bit(reinterpret_cast<std::int16_t*>(row) + i, code);
}
inline Ints load_codes(const std::byte* row, int, int i) {
  return load_16bit(reinterpret_cast<const std::int16_t*>(row) + i);
}

inline void store_rounded(std::uint64_t* p, Floats a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint64_t>(__builtin_rintf(a.v[i]));
}
/// Exact sum of lanes taken as whole numbers, none negative.
struct RoundedSum {
  std::uint64_t sum = 0;

  void add(Floats a) {
    for (const float x : a.v) sum += static_cast<std::uint64_t>(__builtin_rintf(x));
  }
  /// p[0..15] where the mask is set.
  void add(const std::uint64_t* p, Mask m) {
    for (int i = 0; i < kLanes; ++i) sum += m.m[i] ? p[i] : 0;
  }
  std::uint64_t total() const { return sum; }
};

}  // namespace
}  // namespace grokd::kernels

// Loops over floats and 16-bit codes, written once on top of the Floats and Ints of a simd_*.h and compiled
// once for each instruction set. Everything has internal linkage (see simd_avx512.h).

#include "kernels/cpu/isa.h"

namespace grokd::kernels {
namespace {

constexpr int kWidth = 16;

/// body(i, left) for i = 0, 16, ... below n; `left` is what remains, or 16 as a constant where that is
/// enough.
template <class Body>
inline void each_vector(int n, const Body& body) {
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) body(i, kWidth);
  if (i < n) body(i, n - i);
}

// ---- sums in 64 lanes ------------------------------------------------------------------------------------

inline float tree64(const Floats l[4]) { return tree16((l[0] + l[2]) + (l[1] + l[3])); }

inline float lanes64(const float* x, const float* y, int n) {
  Floats l[4] = {splat(0), splat(0), splat(0), splat(0)};
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int v = 0; v < 4; ++v) l[v] = fma(load(x + i + 16 * v), load(y + i + 16 * v), l[v]);
  }
  for (int v = 0; i < n; ++v, i += 16) l[v] = fma(load(x + i, n - i), load(y + i, n - i), l[v]);
  return tree64(l);
}

// ---- elementary functions (docs/numerics.md, section 2) --------------------------------------------------

/// For |x| at most kNoOverflow, or NaN.
constexpr float kNoOverflow = 80;
inline Floats exp_in_range(Floats y) {
  const Floats n = nearest(y * splat(0x1.715476p+0f));
  Floats r = fma(n, splat(-0x1.63p-1f), y);
  r = fma(n, splat(0x1.bd0106p-13f), r);
  Floats q = splat(0x1.6db5bcp-10f);
  q = fma(q, r, splat(0x1.123c78p-7f));
  q = fma(q, r, splat(0x1.55545cp-5f));
  q = fma(q, r, splat(0x1.55548ep-3f));
  q = fma(q, r, splat(0x1p-1f));
  return times_power_of_two(splat(1.0f) + fma(r * r, q, r), n);
}

inline Floats exp(Floats x) {
  return exp_in_range(larger(splat(-104.0f), smaller(splat(89.0f), x)));  // there: +inf and +0; NaN passes
}

// exp of this and less vanishes beside 1, and in units of 2^-40. Taking it instead of less spares the
// processor the denormal numbers, which cost it hundreds of cycles each.
constexpr float kVanishes = -40;

inline Floats tanh(Floats x) {
  const Floats z = magnitude(x);
  const Floats s = x * x;
  Floats q = splat(-0x1.76ac18p-8f);
  q = fma(q, s, splat(0x1.5256d6p-6f));
  q = fma(q, s, splat(-0x1.b84448p-5f));
  q = fma(q, s, splat(0x1.110768p-3f));
  q = fma(q, s, splat(-0x1.555534p-2f));
  const Floats small = fma(x * s, q, x);
  const Mask near_zero = less(z, splat(0.625f));
  if (all(near_zero)) return small;
  const Floats large = splat(1.0f) - splat(2.0f) / (exp(z + z) + splat(1.0f));
  return choose(near_zero, small, with_sign_of(large, x));
}

inline Floats soft_cap(Floats x, float cap, float inverse_cap) {
  return splat(cap) * tanh(x * splat(inverse_cap));
}

inline Floats gelu(Floats u) {
  const Floats cubic = fma(u * u, splat(0x1.6e4e26p-5f), splat(1.0f));
  const Floats z = (u * splat(-0x1.988454p+0f)) * cubic;
  return u / (splat(1.0f) + exp(larger(splat(kVanishes), z)));
}

inline Floats silu(Floats u) { return u / (splat(1.0f) + exp(larger(splat(kVanishes), u * splat(-1.0f)))); }

// ---- quantiser (section 3) -------------------------------------------------------------------------------

/// What multiplies the values, and the scale of the codes, for the largest magnitude `bits`.
struct Grid {
  float inverse, scale;
  bool empty;  // all codes are 0
};

inline Grid grid(std::int32_t bits, float limit = 32767.0f) {
  union {
    std::int32_t i;
    float f;
  } a = {bits};
  if (bits >= 0x7f800000) return {0, __builtin_nanf(""), true};
  if (bits < 0x0da24260) return {0, 0, true};
  return {limit / a.f, a.f / limit, false};
}

inline Grid grid_of(const float* x, int n, float limit = 32767.0f) {
  Ints most = splat_int(0);
  each_vector(n, [&](int i, int left) { most = larger(most, magnitude_bits(load(x + i, left))); });
  return grid(largest(most), limit);
}

inline Ints code_of(Floats x, const Grid& g) {
  return g.empty ? splat_int(0) : to_ints(x * splat(g.inverse));
}

void quantise(const float* x, int n, std::byte* codes, int plane, float* scale) {
  const Grid g = grid_of(x, n);
  *scale = g.scale;
  each_vector(n, [&](int i, int left) { store_codes(codes, plane, i, code_of(load(x + i, left), g)); });
}

void quantise_plain(const float* x, int n, float limit, std::int16_t* codes, float* scale) {
  const Grid g = grid_of(x, n, limit);
  *scale = g.scale;
  each_vector(n, [&](int i, int left) { store_16bit(codes + i, code_of(load(x + i, left), g)); });
}

void read_codes(const std::byte* codes, int plane, int n, std::int16_t* out) {
  std::int16_t sixteen[kWidth];
  for (int i = 0; i < n; i += kWidth) {
    store_16bit(sixteen, load_codes(codes, plane, i));
    for (int j = 0; j < kWidth && i + j < n; ++j) out[i + j] = sixteen[j];
  }
}

void split_codes(const std::byte* codes, int plane, int n, int stride, std::int16_t* planes) {
  for (int i = 0; i < n; i += kWidth) {
    const Ints code = only(first_lanes(n - i), load_codes(codes, plane, i));
    store_16bit(planes + i, high_plane(code));
    store_16bit(planes + stride + i, low_plane(code));
  }
}

// ---- norms -----------------------------------------------------------------------------------------------

void multiply(const float* x, const float* factors, int n, float* y) {
  each_vector(n, [&](int i, int left) { store(y + i, load(x + i, left) * load(factors + i, left), left); });
}

void scale(const float* x, float multiplier, int n, float* y) {
  each_vector(n, [&](int i, int left) { store(y + i, load(x + i, left) * splat(multiplier), left); });
}

void add(const float* y, int n, float* h) {
  each_vector(n, [&](int i, int left) { store(h + i, load(h + i, left) + load(y + i, left), left); });
}

/// 1 / sqrt(mean of squares + eps); NaN if the sum is not finite.
inline float inverse_rms(const float* x, float eps, int n) {
  const float sum = lanes64(x, x, n);
  if (!(sum <= __FLT_MAX__)) return __builtin_nanf("");
  return 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
}

void norm(const float* x, const float* gain, float eps, int n, float* y) {
  const Floats r = splat(inverse_rms(x, eps, n));
  each_vector(n,
              [&](int i, int left) { store(y + i, load(gain + i, left) * (load(x + i, left) * r), left); });
}

void add_norm(const float* y, const float* gain, float eps, int n, float* h) {
  const Floats r = splat(inverse_rms(y, eps, n));
  each_vector(n, [&](int i, int left) {
    const Floats normed = load(gain + i, left) * (load(y + i, left) * r);
    store(h + i, load(h + i, left) + normed, left);
  });
}

void rope(const float* x, const float* cosine, const float* sine, int half, float* y) {
  for (int i = 0; i < half; i += kWidth) {
    const int n = half - i;
    const Floats a = load(x + i, n), b = load(x + half + i, n), c = load(cosine + i, n),
                 s = load(sine + i, n);
    store(y + i, fma(a, c, negative(b * s)), n);
    store(y + half + i, fma(b, c, a * s), n);
  }
}

/// Sooner whole than by a mask, which takes longer to make.
inline Floats load_most(const float* p, int left) { return left >= kWidth ? load(p) : load(p, left); }

// ---- router ----------------------------------------------------------------------------------------------

/// Lane i mod 64 of expert e is lanes[(i mod 64) * experts + e], so that W's own order gives the vectors;
/// `spread` repeats each x[i] once an expert.
void router_products(const float* x, int n, const float* w, int experts, float* lanes, float* spread) {
  for (int i = 0; i < n; ++i) {  // what a store writes too much, the next one overwrites
    for (int e = 0; e < experts; e += kWidth) store(spread + i * experts + e, splat(x[i]));
  }
  const int row = 64 * experts, total = n * experts;
  for (int f = 0; f < row; f += kWidth) {
    Floats lane = splat(0);
    for (int i = f; i < total; i += row)
      lane = fma(load_most(spread + i, total - i), load_most(w + i, total - i), lane);
    store(lanes + f, lane);
  }
  for (int s = 32; s > 0; s /= 2) {
    each_vector(s * experts, [&](int f, int left) {
      store(lanes + f, load(lanes + f, left) + load(lanes + f + s * experts, left), left);
    });
  }
}

void router(const float* x, int n, const float* w, int experts, float cap, float inverse_cap, float* lanes,
            float* spread, float* weight) {
  router_products(x, n, w, experts, lanes, spread);
  Floats most = splat(-__builtin_inff());
  for (int e = 0; e < experts; e += kWidth) {
    Floats z = load(lanes + e, experts - e);
    if (cap != 0) z = soft_cap(z, cap, inverse_cap);
    store(lanes + e, z, experts - e);
    most = larger(most, choose(first_lanes(experts - e), z, splat(-__builtin_inff())));
  }
  const Floats top = splat(largest(most));
  for (int e = 0; e < experts; e += kWidth) {
    store(weight + e, exp(load(lanes + e, experts - e) - top), experts - e);
  }
}

// ---- experts and logits ----------------------------------------------------------------------------------

void gelu_product(const float* u, const float* v, int n, float* t) {
  each_vector(n, [&](int i, int left) { store(t + i, gelu(load(u + i, left)) * load(v + i, left), left); });
}

void silu_product(const float* u, const float* v, int n, float* t) {
  each_vector(n, [&](int i, int left) { store(t + i, silu(load(u + i, left)) * load(v + i, left), left); });
}

/// Tree over leaf(first) .. leaf(first + groups - 1), groups a power of two.
template <class Leaf>
inline Floats group_tree(const Leaf& leaf, int first, int groups) {
  if (groups == 1) return leaf(first);
  return group_tree(leaf, first, groups / 2) + group_tree(leaf, first + groups / 2, groups / 2);
}

template <class Leaf>
inline Floats eight_groups(const Leaf& leaf) {
  const Floats left = (leaf(0) + leaf(1)) + (leaf(2) + leaf(3));
  return left + ((leaf(4) + leaf(5)) + (leaf(6) + leaf(7)));
}

template <class Leaf>
inline Floats all_groups(const Leaf& leaf, int groups) {
  return groups == 8 ? eight_groups(leaf) : groups == 1 ? leaf(0) : group_tree(leaf, 0, groups);
}

void sum_groups(const float* y, int groups, std::ptrdiff_t group_stride, int n, float* out) {
  each_vector(n, [&](int i, int left) {
    store(out + i, all_groups([&](int g) { return load(y + g * group_stride + i, left); }, groups), left);
  });
}

void mix_experts(const float* const* parts, const float* gates, int count, int groups,
                 std::ptrdiff_t group_stride, int n, float* out) {
  each_vector(n, [&](int i, int left) {
    const auto weighed = [&](int g) {
      const std::ptrdiff_t at = g * group_stride + i;
      Floats sum = splat(gates[0]) * load(parts[0] + at, left);
      for (int j = 1; j < count; ++j) sum = sum + splat(gates[j]) * load(parts[j] + at, left);
      return sum;
    };
    store(out + i, all_groups(weighed, groups), left);
  });
}

void finish_logits(float* y, int n, float multiplier, float cap, float inverse_cap) {
  each_vector(n, [&](int i, int left) {
    const Floats z = load(y + i, left) * splat(multiplier);
    store(y + i, cap != 0 ? soft_cap(z, cap, inverse_cap) : z, left);
  });
}

float exp_one(float x) { return lane0(exp(splat(x))); }

}  // namespace
}  // namespace grokd::kernels

#include "kernels/cpu/vector_attention.inl"
#include "kernels/cpu/vector_sampling.inl"

namespace grokd::kernels {
namespace {

constexpr VectorKernels kTable = {
    scale,       multiply,      add,       norm,       add_norm,     quantise,     quantise_plain,
    read_codes,  split_codes,   rope,      router,     gelu_product, silu_product, sum_groups,
    mix_experts, finish_logits, scores,    block_max,  accumulate,   divide,       exp_one,
    finite_max,  find,          exp_total, divide_all, sum_up_to,    collect,      contenders,
};

}  // namespace
}  // namespace grokd::kernels

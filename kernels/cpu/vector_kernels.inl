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

inline Floats exp(Floats x) {
  const Floats y =
      larger(splat(-104.0f), smaller(splat(89.0f), x));  // at the bounds: +inf and +0; NaN passes
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

// ---- quantiser (section 3) -------------------------------------------------------------------------------

/// What multiplies the values, and the scale of the codes, for the largest magnitude `bits`.
struct Grid {
  float inverse, scale;
  bool empty;  // all codes are 0
};

inline Grid grid(std::int32_t bits) {
  union {
    std::int32_t i;
    float f;
  } a = {bits};
  if (bits >= 0x7f800000) return {0, __builtin_nanf(""), true};
  if (bits < 0x0da24260) return {0, 0, true};
  return {32767.0f / a.f, a.f / 32767.0f, false};
}

inline Grid grid_of(const float* x, int n) {
  Ints most = splat_int(0);
  each_vector(n, [&](int i, int left) { most = larger(most, magnitude_bits(load(x + i, left))); });
  return grid(largest(most));
}

inline Ints code_of(Floats x, const Grid& g) {
  return g.empty ? splat_int(0) : to_ints(x * splat(g.inverse));
}

void quantise(const float* x, int n, std::byte* codes, int plane, float* scale) {
  const Grid g = grid_of(x, n);
  *scale = g.scale;
  each_vector(n, [&](int i, int left) { store_codes(codes, plane, i, code_of(load(x + i, left), g)); });
}

void quantise_plain(const float* x, int n, std::int16_t* codes, float* scale) {
  const Grid g = grid_of(x, n);
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

// ---- attention -------------------------------------------------------------------------------------------

constexpr int kBlock = 64;  // positions of a page
constexpr int kBlockVectors = kBlock / kWidth;

inline Ints splat_pair(const std::int16_t* p) {
  std::int32_t both;
  __builtin_memcpy(&both, p, sizeof both);
  return splat_int(both);
}

/// Products of kQueries queries with kVectors * 16 positions of a page, from position 16 * first_vector.
template <int kQueries, int kVectors>
inline void key_products(const AttentionQueries& q, int query, const PageHead& page, int first_vector,
                         float* scores) {
  Ints high[kQueries][kVectors], low[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) high[i][v] = low[i][v] = splat_int(0);
  }
  const std::int16_t* planes = q.planes + static_cast<std::ptrdiff_t>(query) * 2 * q.stride;
  for (int c = 0; c < q.head_size; c += 2) {
    Ints key[kVectors];
    for (int v = 0; v < kVectors; ++v) key[v] = load_pairs(page.keys + c * kBlock + 32 * (first_vector + v));
    for (int i = 0; i < kQueries; ++i) {
      const Ints qh = splat_pair(planes + 2 * i * q.stride + c);
      const Ints ql = splat_pair(planes + (2 * i + 1) * q.stride + c);
      for (int v = 0; v < kVectors; ++v) {
        high[i][v] = dot_pairs(high[i][v], key[v], qh);
        low[i][v] = dot_pairs(low[i][v], key[v], ql);
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const int at = 16 * (first_vector + v);
      const Floats scale = splat(q.scale[query + i]) * load(page.key_scale + at);
      Floats s = (join_planes(high[i][v], low[i][v]) * scale) * splat(q.multiplier);
      if (q.cap != 0) s = soft_cap(s, q.cap, q.inverse_cap);
      store(scores + (query + i) * kBlock + at, s);
    }
  }
}

void scores(const AttentionQueries& q, const PageHead& page, float* out) {
  int query = 0;
  for (; query + 2 <= q.count; query += 2) {
    for (int v = 0; v < kBlockVectors; v += kScoreVectors)
      key_products<2, kScoreVectors>(q, query, page, v, out);
  }
  if (query < q.count) {
    for (int v = 0; v < kBlockVectors; v += kScoreVectors)
      key_products<1, kScoreVectors>(q, query, page, v, out);
  }
}

inline Mask visible(const AttentionQueries& q, int query, int at) {
  return without(first_lanes(q.last[query] - at), first_lanes(q.first[query] - at));
}

void block_max(const AttentionQueries& q, const float* s, float* out) {
  for (int query = 0; query < q.count; ++query) {
    Floats most = splat(-__builtin_inff());
    for (int at = 0; at < kBlock; at += kWidth) {
      most = larger(most,
                    choose(visible(q, query, at), load(s + query * kBlock + at), splat(-__builtin_inff())));
    }
    out[query] = largest(most);
  }
}

/// Weights of the positions of a page for one query, as planes [2][64] of codes.
struct BlockWeights {
  alignas(64) std::int16_t planes[2][kBlock];
  float scale;
  float den;
};

/// kWhole: the query sees the whole page.
template <bool kWhole>
inline void block_weights(const AttentionQueries& q, int query, const PageHead& page, const float* s, float m,
                          BlockWeights& out) {
  Floats e[kBlockVectors], weight[kBlockVectors];
  Ints most = splat_int(0);
  for (int v = 0; v < kBlockVectors; ++v) {
    const Floats x = load(s + kWidth * v);
    e[v] = exp(q.cap != 0 ? x : x - splat(m));
    weight[v] = e[v] * load(page.value_scale + kWidth * v);
    if constexpr (!kWhole) {
      const Mask seen = visible(q, query, kWidth * v);
      e[v] = choose(seen, e[v], splat(0));
      weight[v] = choose(seen, weight[v], splat(0));
    }
    most = larger(most, magnitude_bits(weight[v]));
  }
  const Grid g = grid(largest(most));
  for (int v = 0; v < kBlockVectors; ++v) {
    const Ints code = code_of(weight[v], g);
    store_16bit(out.planes[0] + kWidth * v, high_plane(code));
    store_16bit(out.planes[1] + kWidth * v, low_plane(code));
  }
  out.scale = g.scale;
  out.den = tree64(e);
}

/// kVectors * 16 channels of kQueries queries: sum of weight * value over the visible positions, into num.
template <int kQueries, int kVectors>
inline void value_products(const AttentionQueries& q, int query, const PageHead& page, const BlockWeights* w,
                           int channel, int first_pair, int end_pair, const float* factor, float* num) {
  Ints high[kQueries][kVectors], low[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) high[i][v] = low[i][v] = splat_int(0);
  }
  for (int pair = first_pair; pair < end_pair; ++pair) {
    Ints value[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      value[v] = load_pairs(page.values + 2 * (pair * q.stride + channel + kWidth * v));
    }
    for (int i = 0; i < kQueries; ++i) {
      const Ints wh = splat_pair(w[i].planes[0] + 2 * pair), wl = splat_pair(w[i].planes[1] + 2 * pair);
      for (int v = 0; v < kVectors; ++v) {
        high[i][v] = dot_pairs(high[i][v], value[v], wh);
        low[i][v] = dot_pairs(low[i][v], value[v], wl);
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      float* sum = num + (query + i) * q.stride + channel + kWidth * v;
      Floats block = join_planes(high[i][v], low[i][v]) * splat(w[i].scale);
      if (factor) block = block * splat(factor[query + i]);
      store(sum, load(sum) + block);
    }
  }
}

template <int kQueries>
inline void accumulate_queries(const AttentionQueries& q, int query, const PageHead& page, const float* s,
                               const float* m, const float* factor, float* num, float* den) {
  BlockWeights w[kQueries];
  int first = kBlock, last = 0;
  for (int i = 0; i < kQueries; ++i) {
    const bool whole = q.first[query + i] <= 0 && q.last[query + i] >= kBlock;
    (whole ? block_weights<true> : block_weights<false>)(q, query + i, page, s + (query + i) * kBlock,
                                                         m ? m[query + i] : 0, w[i]);
    if (q.first[query + i] < first) first = q.first[query + i];
    if (q.last[query + i] > last) last = q.last[query + i];
    den[query + i] = den[query + i] + (factor ? w[i].den * factor[query + i] : w[i].den);
  }
  const int first_pair = first / 2, end_pair = (last + 1) / 2;
  int c = 0;
  for (; c + kWidth * kValueVectors <= q.stride; c += kWidth * kValueVectors) {
    value_products<kQueries, kValueVectors>(q, query, page, w, c, first_pair, end_pair, factor, num);
  }
  for (; c < q.stride; c += kWidth) {
    value_products<kQueries, 1>(q, query, page, w, c, first_pair, end_pair, factor, num);
  }
}

void accumulate(const AttentionQueries& q, const PageHead& page, const float* s, const float* m,
                const float* factor, float* num, float* den) {
  for (int query = 0; query < q.count;) {
    int run = 0;  // queries in a row that see something of the page
    while (run < kValueQueries && query + run < q.count && q.first[query + run] < q.last[query + run]) ++run;
    if (run == kValueQueries) {
      accumulate_queries<kValueQueries>(q, query, page, s, m, factor, num, den);
    } else {
      for (int i = 0; i < run; ++i) accumulate_queries<1>(q, query + i, page, s, m, factor, num, den);
    }
    query += run > 0 ? run : 1;
  }
}

void divide(const float* num, float den, int n, float* o) {
  each_vector(n, [&](int i, int left) { store(o + i, load(num + i, left) / splat(den), left); });
}

float exp_one(float x) { return lane0(exp(splat(x))); }

// ---- sampling --------------------------------------------------------------------------------------------

bool finite_max(const float* x, int n, float* out) {
  Ints bits = splat_int(0);
  Floats most = splat(-__builtin_inff());
  each_vector(n, [&](int i, int left) {
    const Floats v = load(x + i, left);
    bits = larger(bits, magnitude_bits(v));
    most = larger(choose(first_lanes(left), v, splat(-__builtin_inff())), most);
  });
  *out = largest(most);
  return largest(bits) < 0x7f800000;
}

int find(const float* x, int n, float value) {
  for (int i = 0; i < n; i += kWidth) {
    if (!any(equal(load(x + i, n - i), splat(value)) & first_lanes(n - i))) continue;
    while (x[i] != value) ++i;
    return i;
  }
  return n;
}

std::uint64_t exp_total(const float* x, int n, float largest_x, std::uint64_t* terms) {
  RoundedSum sum;
  each_vector(n, [&](int i, int left) {
    const Floats difference = larger(splat(kVanishes), load(x + i, left) - splat(largest_x));
    Floats weight = exp(difference) * splat(0x1p40f);
    weight = larger(choose(first_lanes(left), weight, splat(0)), splat(0));  // a NaN weighs nothing
    sum.add(weight);
    if (terms) store_rounded(terms + i, weight);
  });
  return sum.total();
}

void divide_all(float* x, int n, float divisor) {
  each_vector(n, [&](int i, int left) { store(x + i, load(x + i, left) / splat(divisor), left); });
}

/// Lanes of x + i that are at most `bound`.
inline Mask at_most(const float* x, int i, int left, float bound) {
  return without(first_lanes(left), less(splat(bound), load(x + i, left)));
}

std::uint64_t sum_up_to(const float* x, const std::uint64_t* weights, int n, float bound) {
  RoundedSum sum;
  std::uint64_t count = 0;
  each_vector(n, [&](int i, int left) {
    const Mask mask = at_most(x, i, left, bound);
    if (weights) {
      sum.add(weights + i, mask);
    } else {
      count += static_cast<std::uint64_t>(__builtin_popcount(bits(mask)));
    }
  });
  return weights ? sum.total() : count;
}

int collect(const float* x, int n, float above, float up_to, std::int32_t* indices) {
  int count = 0;
  each_vector(n, [&](int i, int left) {
    const Mask mask = at_most(x, i, left, up_to) & less(splat(above), load(x + i, left));
    for (std::uint32_t set = bits(mask); set != 0; set &= set - 1) indices[count++] = i + __builtin_ctz(set);
  });
  return count;
}

/// Philox 4x32-10 for 16 counters from `first` on; words[4 * counter + word].
void random_words(const DrawKey& key, std::uint32_t first, std::uint32_t* words) {
  std::uint32_t c[4][kWidth];
  for (int i = 0; i < kWidth; ++i) {
    c[0][i] = first + static_cast<std::uint32_t>(i), c[1][i] = key.draw, c[2][i] = key.choice, c[3][i] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kWidth; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0][i], b = std::uint64_t{0xCD9E8D57} * c[2][i];
      c[0][i] = static_cast<std::uint32_t>(b >> 32) ^ c[1][i] ^ k0;
      c[1][i] = static_cast<std::uint32_t>(b);
      c[2][i] = static_cast<std::uint32_t>(a >> 32) ^ c[3][i] ^ k1;
      c[3][i] = static_cast<std::uint32_t>(a);
    }
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  for (int i = 0; i < kWidth; ++i) {
    for (int w = 0; w < 4; ++w) words[4 * i + w] = c[w][i];
  }
}

/// u = (word + 0.5) / 2^32, and -log(-log u) <= -log(1 - u) <= (31 - log2 of half the word's complement) *
/// log 2; the bits of a float, as a number, are a lower bound of its logarithm.
inline Floats gumbel_bound(const std::uint32_t* words) {
  const Floats log2 = to_floats(bits(to_floats(half_complement(words)))) * splat(0x1p-23f) - splat(127.0f);
  return (splat(31.0f) - log2) * splat(0.6931472f);
}

std::uint64_t contenders(const float* y, int n, const DrawKey& key, std::uint32_t counter, float least,
                         std::uint32_t* words) {
  constexpr float kLargestGumbel = 23;
  bool near = false;
  each_vector(n, [&](int i, int left) {
    near |= any(first_lanes(left) & less(splat(least - kLargestGumbel), load(y + i, left)));
  });
  if (!near) return 0;
  random_words(key, counter, words);
  std::uint64_t set = 0;
  each_vector(n, [&](int i, int left) {
    const Mask wins = less(splat(least), load(y + i, left) + gumbel_bound(words + i)) & first_lanes(left);
    set |= std::uint64_t{bits(wins)} << i;
  });
  return set;
}

constexpr VectorKernels kTable = {
    scale,       add,        norm,       add_norm,     quantise,   quantise_plain, read_codes,
    split_codes, rope,       router,     gelu_product, sum_groups, mix_experts,    finish_logits,
    scores,      block_max,  accumulate, divide,       exp_one,    finite_max,     find,
    exp_total,   divide_all, sum_up_to,  collect,      contenders,
};

}  // namespace
}  // namespace grokd::kernels

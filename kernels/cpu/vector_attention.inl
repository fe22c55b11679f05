// The part of vector_kernels.inl that attends to pages of keys and values.

namespace grokd::kernels {
namespace {

constexpr int kBlock = 64;  // positions of a page
constexpr int kBlockVectors = kBlock / kWidth;

inline Ints splat_pair(const std::int16_t* p) {
  std::int32_t both;
  __builtin_memcpy(&both, p, sizeof both);
  return splat_int(both);
}

/// Products of kQueries queries with kVectors * 16 positions of a page, from position 16 * first_vector.
/// Code: std::int16_t, or std::int8_t where the page is narrow.
template <class Code, int kQueries, int kVectors>
inline void key_products(const AttentionQueries& q, int query, const PageHead& page, int first_vector,
                         float* scores) {
  Ints high[kQueries][kVectors], low[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) high[i][v] = low[i][v] = splat_int(0);
  }
  const std::int16_t* planes = q.planes + static_cast<std::ptrdiff_t>(query) * 2 * q.stride;
  const auto* keys = reinterpret_cast<const Code*>(page.keys);
  for (int c = 0; c < q.head_size; c += 2) {
    Ints key[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) key[v] = load_pairs(keys + c * kBlock + 32 * (first_vector + v));
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Ints qh = splat_pair(planes + 2 * i * q.stride + c);
      const Ints ql = splat_pair(planes + (2 * i + 1) * q.stride + c);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        high[i][v] = dot_pairs(high[i][v], key[v], qh);
        low[i][v] = dot_pairs(low[i][v], key[v], ql);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int at = 16 * (first_vector + v);
      const Floats scale = splat(q.scale[query + i]) * load(page.key_scale + at);
      Floats s = (join_planes(high[i][v], low[i][v]) * scale) * splat(q.multiplier);
      if (q.cap != 0) s = soft_cap(s, q.cap, q.inverse_cap);
      if (q.temperature) s = s * splat(q.temperature[query + i]);
      store(scores + (query + i) * kBlock + at, s);
    }
  }
}

/// The vectors of positions that one of kQueries queries may see.
template <class Code, int kQueries>
inline void visible_scores(const AttentionQueries& q, int query, const PageHead& page, float* out) {
  const int last = kQueries == 2 && q.last[query + 1] > q.last[query] ? q.last[query + 1] : q.last[query];
  int v = 0;
  for (; kWidth * v < last; v += kScoreVectors) {
    if constexpr (kScoreVectors > 1) {
      if (last - kWidth * v <= kWidth * kScoreVectors / 2) {
        return key_products<Code, kQueries, kScoreVectors / 2>(q, query, page, v, out);
      }
    }
    key_products<Code, kQueries, kScoreVectors>(q, query, page, v, out);
  }
}

template <class Code>
void scores_of(const AttentionQueries& q, const PageHead& page, float* out) {
  int query = 0;
  for (; query + 2 <= q.count; query += 2) visible_scores<Code, 2>(q, query, page, out);
  if (query < q.count) visible_scores<Code, 1>(q, query, page, out);
}

void scores(const AttentionQueries& q, const PageHead& page, float* out) {
  (page.narrow ? scores_of<std::int8_t> : scores_of<std::int16_t>)(q, page, out);
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
    if (!kWhole && kWidth * v >= q.last[query]) {
      e[v] = weight[v] = splat(0);
      continue;
    }
    const Floats x = load(s + kWidth * v);
    e[v] = q.cap == 0 ? exp(x - splat(m)) : q.cap <= kNoOverflow ? exp_in_range(x) : exp(x);
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
template <class Code, int kQueries, int kVectors>
inline void value_products(const AttentionQueries& q, int query, const PageHead& page, const BlockWeights* w,
                           int channel, int first_pair, int end_pair, const float* factor, float* num) {
  Ints high[kQueries][kVectors], low[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) high[i][v] = low[i][v] = splat_int(0);
  }
  const auto* values = reinterpret_cast<const Code*>(page.values);
  for (int pair = first_pair; pair < end_pair; ++pair) {
    Ints value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      value[v] = load_pairs(values + 2 * (pair * q.stride + channel + kWidth * v));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Ints wh = splat_pair(w[i].planes[0] + 2 * pair), wl = splat_pair(w[i].planes[1] + 2 * pair);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        high[i][v] = dot_pairs(high[i][v], value[v], wh);
        low[i][v] = dot_pairs(low[i][v], value[v], wl);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* sum = num + (query + i) * q.stride + channel + kWidth * v;
      Floats block = join_planes(high[i][v], low[i][v]) * splat(w[i].scale);
      if (factor) block = block * splat(factor[query + i]);
      store(sum, load(sum) + block);
    }
  }
}

template <class Code, int kQueries>
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
    value_products<Code, kQueries, kValueVectors>(q, query, page, w, c, first_pair, end_pair, factor, num);
  }
  for (; c < q.stride; c += kWidth) {
    value_products<Code, kQueries, 1>(q, query, page, w, c, first_pair, end_pair, factor, num);
  }
}

template <class Code>
void accumulate_page(const AttentionQueries& q, const PageHead& page, const float* s, const float* m,
                     const float* factor, float* num, float* den) {
  for (int query = 0; query < q.count;) {
    int run = 0;  // queries in a row that see something of the page
    while (run < kValueQueries && query + run < q.count && q.first[query + run] < q.last[query + run]) ++run;
    if (run == kValueQueries) {
      accumulate_queries<Code, kValueQueries>(q, query, page, s, m, factor, num, den);
    } else {
      for (int i = 0; i < run; ++i) accumulate_queries<Code, 1>(q, query + i, page, s, m, factor, num, den);
    }
    query += run > 0 ? run : 1;
  }
}

void accumulate(const AttentionQueries& q, const PageHead& page, const float* s, const float* m,
                const float* factor, float* num, float* den) {
  (page.narrow ? accumulate_page<std::int8_t> : accumulate_page<std::int16_t>)(q, page, s, m, factor, num,
                                                                               den);
}

void divide(const float* num, float den, int n, float* o) {
  each_vector(n, [&](int i, int left) { store(o + i, load(num + i, left) / splat(den), left); });
}

}  // namespace
}  // namespace grokd::kernels

// The part of vector_kernels.inl that filters and draws tokens.

namespace grokd::kernels {
namespace {

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

}  // namespace
}  // namespace grokd::kernels

// Log-probabilities and sampling (docs/numerics.md, sections 6 and 7), one row of logits at a time. What may
// not be drawn is set to minus infinity in a copy of the row, so that every filter is a pass over plain
// floats.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/op_scratch.h"
#include "kernels/cpu/selection.h"

namespace grokd::kernels {
namespace {

constexpr double kGreedyBelow = 1e-5;
constexpr double kUnit = 0x1p40;  // weight of the largest
constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// Section 2.
double log_f64(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t fraction = bits & 0xfffffffffffff;
  const bool upper = fraction > 0x6a09e667f3bcd;
  const double k = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023 + (upper ? 1 : 0));
  const double m = std::bit_cast<double>(fraction | std::uint64_t{upper ? 1022u : 1023u} << 52);
  const double f = m - 1.0, s = f / (2.0 + f), z = s * s, h = (0.5 * f) * f;
  double r = 2.0 / 23;
  for (int j = 10; j >= 1; --j) r = r * z + 2.0 / (2 * j + 1);
  r = r * z;
  return k * 0x1.62e42feep-1 - ((h - (s * (h + r) + k * 0x1.a39ef35793c76p-33)) - f);
}

struct RowSampler {
  const VectorKernels& kernels;
  const float* x;  // raw logits [vocab]
  int vocab;
  const SamplingRow& row;
  SampledToken& out;
  const SampleScratch& own;
  float largest = 0;     // of x
  double log_total = 0;  // of exp(x - largest)

  void sample();

  float logprob(TokenId id) const {
    return static_cast<float>(static_cast<double>(x[id] - largest) - log_total);
  }
  void fill_top() const;

  void apply_biases_and_penalties() const;
  bool apply_mask() const;
  TokenId argmax() const;
  void keep_top_k() const;
  void keep_probable() const;
  void draw() const;

  float* y() const { return own.values; }
  int left() const;
  float largest_left() const;
  void exclude_below(float threshold) const;
  double score(TokenId id, std::uint32_t word) const;
};

/// The best log-probabilities. Different logits may round to one log-probability, and then the lower id comes
/// first: so everything that could equal the last place is looked at.
void RowSampler::fill_top() const {
  const int count = std::min(static_cast<int>(out.top.size()), vocab);
  if (count == 0) return;
  const float last = weighted_threshold(kernels, x, nullptr, vocab, largest,
                                        static_cast<std::uint64_t>(vocab - count + 1), own.sums, own.ids);
  const float cut = last - 1e-5f * (1 + std::fabs(last) + std::fabs(largest) + std::fabs(last - largest));
  int filled = 0;
  for (TokenId id = 0; id < vocab; ++id) {
    if (x[id] < cut) continue;
    const TokenLogprob candidate{id, logprob(id)};
    if (filled == count && candidate.logprob <= out.top[static_cast<std::size_t>(count) - 1].logprob)
      continue;
    int at = filled < count ? filled++ : count - 1;
    for (; at > 0 && out.top[static_cast<std::size_t>(at) - 1].logprob < candidate.logprob; --at) {
      out.top[static_cast<std::size_t>(at)] = out.top[static_cast<std::size_t>(at) - 1];
    }
    out.top[static_cast<std::size_t>(at)] = candidate;
  }
}

void RowSampler::apply_biases_and_penalties() const {
  for (const LogitBias& bias : row.biases) y()[bias.id] = y()[bias.id] + bias.bias;
  if (row.repetition_penalty == 1 && row.frequency_penalty == 0 && row.presence_penalty == 0) return;
  const auto repetition = static_cast<float>(row.repetition_penalty);
  const auto frequency = static_cast<float>(row.frequency_penalty);
  const auto presence = static_cast<float>(row.presence_penalty);
  for (const TokenCount& count : row.counts) {
    float& value = y()[count.id];
    if (count.in_prompt + count.in_answer > 0) value = value > 0 ? value / repetition : value * repetition;
    if (count.in_answer > 0) {
      const float by_count = static_cast<float>(count.in_answer) * frequency;
      value = value - by_count;
      value = value - presence;
    }
  }
}

/// False if nothing may be drawn.
bool RowSampler::apply_mask() const {
  if (row.mask == nullptr) return true;
  bool any = false;
  for (int first = 0; first < vocab; first += 64) {
    const int bits = std::min(64, vocab - first);
    const std::uint64_t existing = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    const std::uint64_t allowed = row.mask[first / 64] & existing;
    any |= allowed != 0;
    for (std::uint64_t masked = existing & ~allowed; masked != 0; masked &= masked - 1) {
      y()[first + std::countr_zero(masked)] = kExcluded;
    }
  }
  return any;
}

/// -1 if nothing is a number.
TokenId RowSampler::argmax() const {
  const int id = kernels.find(y(), vocab, largest_left());
  return id < vocab ? id : -1;
}

int RowSampler::left() const {
  return vocab - static_cast<int>(kernels.sum_up_to(y(), nullptr, vocab, kExcluded));
}

float RowSampler::largest_left() const {
  float most;
  kernels.finite_max(y(), vocab, &most);
  return most;
}

void RowSampler::exclude_below(float threshold) const {
  for (int v = 0; v < vocab; ++v) y()[v] = y()[v] < threshold ? kExcluded : y()[v];
}

void RowSampler::keep_top_k() const {
  if (row.top_k <= 0 || row.top_k >= vocab || row.top_k >= left()) return;
  exclude_below(weighted_threshold(kernels, y(), nullptr, vocab, largest_left(),
                                   static_cast<std::uint64_t>(vocab - row.top_k + 1), own.sums, own.ids));
}

/// top-p, then min-p, with one set of weights.
void RowSampler::keep_probable() const {
  if (row.top_p >= 1 && row.min_p <= 0) return;
  const float most = largest_left();
  const std::uint64_t total = kernels.exp_total(y(), vocab, most, own.weights);
  if (total == 0) return;
  if (row.top_p < 1) {
    const double wanted = std::ceil((1.0 - row.top_p) * static_cast<double>(total));
    const std::uint64_t target =
        wanted < 0x1p63 ? std::min(static_cast<std::uint64_t>(wanted), total) : total;
    exclude_below(weighted_threshold(kernels, y(), own.weights, vocab, most, target, own.sums, own.ids));
  }
  if (row.min_p <= 0) return;
  const double least = row.min_p * kUnit;
  for (int v = 0; v < vocab; ++v) y()[v] = static_cast<double>(own.weights[v]) < least ? kExcluded : y()[v];
}

double RowSampler::score(TokenId id, std::uint32_t word) const {
  const double u = (static_cast<double>(word) + 0.5) / 0x1p32;
  return static_cast<double>(y()[id]) - log_f64(-log_f64(u));
}

/// Gumbel-max over what is left. Starting from the most likely token, only those that could beat the best so
/// far need their logarithms.
void RowSampler::draw() const {
  constexpr int kBlock = 64, kWordsACounter = 4;
  out.kept = left();
  if (out.kept == 0) return;
  out.id = argmax();
  if (out.id < 0) return;
  const DrawKey key{row.seed, row.draw, row.choice};
  std::uint32_t words[kBlock];
  const auto counter = static_cast<std::uint32_t>(out.id / kWordsACounter);
  kernels.contenders(y() + out.id, 1, key, counter, kExcluded, words);
  double best = score(out.id, words[out.id % kWordsACounter]);
  for (int first = 0; first < vocab; first += kBlock) {
    const auto least =
        static_cast<float>(best - 0.01 - 1e-6 * std::fabs(best));  // for the bound's own rounding
    std::uint64_t set = kernels.contenders(y() + first, std::min(kBlock, vocab - first), key,
                                           static_cast<std::uint32_t>(first / kWordsACounter), least, words);
    for (; set != 0; set &= set - 1) {
      const int i = std::countr_zero(set);
      const double value = score(first + i, words[i]);
      if (value > best || (value == best && first + i < out.id)) best = value, out.id = first + i;
    }
  }
}

void RowSampler::sample() {
  out.id = -1, out.logprob = 0, out.kept = 0;
  out.finite = kernels.finite_max(x, vocab, &largest);
  if (!out.finite) return;
  log_total = log_f64(static_cast<double>(kernels.exp_total(x, vocab, largest, nullptr)) * 0x1p-40);
  fill_top();
  if (row.forced >= 0) {
    out.id = row.forced;
  } else {
    std::copy_n(x, vocab, y());
    apply_biases_and_penalties();
    if (!apply_mask()) return;
    if (row.temperature < kGreedyBelow) {
      out.id = argmax();
      out.kept = 1;
    } else {
      kernels.divide_all(y(), vocab, static_cast<float>(row.temperature));
      keep_top_k();
      keep_probable();
      draw();
    }
  }
  if (out.id >= 0) out.logprob = logprob(out.id);
}

}  // namespace

void CpuBackend::sample(MatrixView<float> logits, std::span<const SamplingRow> rows,
                        std::span<SampledToken> out) {
  const auto vocab = static_cast<int>(logits.cols);
  scratch_.reserve_own(bytes_of<SampleScratch>(vocab));
  pool_.parallel_for(static_cast<int>(rows.size()), [&](int r, int thread) {
    Carver carver = scratch_.own(thread);
    const auto i = static_cast<std::size_t>(r);
    RowSampler{vector(), logits.row(r), vocab, rows[i], out[i], SampleScratch(carver, vocab)}.sample();
  });
}

}  // namespace grokd::kernels

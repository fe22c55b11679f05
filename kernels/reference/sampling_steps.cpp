#include "kernels/reference/sampling_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/philox.h"
#include "kernels/reference/elementary.h"

namespace grokd::kernels::reference {
namespace {

constexpr double kUnit = 0x1p40;  // the weight of the largest

std::vector<float> gather(std::span<const float> y, std::span<const TokenId> ids) {
  std::vector<float> values;
  for (const TokenId id : ids) values.push_back(y[id]);
  return values;
}

/// The smallest value up to which the weights of all values sum to (1 - top_p) of the total.
float top_p_threshold(const std::vector<float>& values, const Weights& weights, double top_p) {
  const double wanted = std::ceil((1.0 - top_p) * static_cast<double>(weights.total));
  const std::uint64_t target =
      wanted < 0x1p63 ? std::min(static_cast<std::uint64_t>(wanted), weights.total) : weights.total;
  std::vector<std::size_t> rising(values.size());
  std::iota(rising.begin(), rising.end(), std::size_t{0});
  std::sort(rising.begin(), rising.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::uint64_t sum = 0;
  for (const std::size_t i : rising) {
    sum += weights.weight[i];
    if (sum >= target) return values[i];
  }
  return values[rising.back()];
}

}  // namespace

Weights softmax_weights(std::span<const float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  Weights weights;
  for (const float value : x) {
    const double scaled = std::rint(static_cast<double>(exp_f32(value - largest)) * kUnit);
    // A NaN (only settings of absurd size make one) weighs nothing.
    weights.weight.push_back(scaled > 0 ? static_cast<std::uint64_t>(scaled) : 0);
    weights.total += weights.weight.back();
  }
  return weights;
}

std::vector<float> logprobs(std::span<const float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  const double log_total = log_f64(static_cast<double>(softmax_weights(x).total) * 0x1p-40);
  std::vector<float> result;
  for (const float value : x) {
    const float difference = value - largest;
    result.push_back(static_cast<float>(static_cast<double>(difference) - log_total));
  }
  return result;
}

std::vector<TokenId> best_ids(std::span<const float> logprob, std::size_t count) {
  std::vector<TokenId> ids(logprob.size());
  std::iota(ids.begin(), ids.end(), TokenId{0});
  count = std::min(count, ids.size());
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
      [&](TokenId a, TokenId b) { return logprob[a] > logprob[b] || (logprob[a] == logprob[b] && a < b); });
  ids.resize(count);
  return ids;
}

void add_biases(std::span<float> x, std::span<const LogitBias> biases) {
  for (const LogitBias& bias : biases) x[bias.id] = x[bias.id] + bias.bias;
}

void apply_penalties(std::span<float> x, const SamplingRow& row) {
  if (row.repetition_penalty == 1 && row.frequency_penalty == 0 && row.presence_penalty == 0) return;
  const auto repetition = static_cast<float>(row.repetition_penalty);
  const auto frequency = static_cast<float>(row.frequency_penalty);
  const auto presence = static_cast<float>(row.presence_penalty);
  for (const TokenCount& count : row.counts) {
    float& value = x[count.id];
    if (count.in_prompt + count.in_answer > 0) value = value > 0 ? value / repetition : value * repetition;
    if (count.in_answer > 0) {
      const float penalty = static_cast<float>(count.in_answer) * frequency;
      value = value - penalty;
      value = value - presence;
    }
  }
}

std::vector<TokenId> unmasked_ids(std::size_t vocab, const std::uint64_t* mask) {
  std::vector<TokenId> ids;
  for (std::size_t v = 0; v < vocab; ++v) {
    if (mask == nullptr || (mask[v / 64] >> (v % 64) & 1) != 0) ids.push_back(static_cast<TokenId>(v));
  }
  return ids;
}

TokenId argmax(std::span<const float> x, std::span<const TokenId> ids) {
  TokenId best = ids.front();
  for (const TokenId id : ids) {
    if (x[id] > x[best]) best = id;
  }
  return best;
}

void divide_by_temperature(std::span<float> x, double temperature) {
  for (float& value : x) value = value / static_cast<float>(temperature);
}

std::vector<TokenId> keep_top_k(std::span<const float> y, std::vector<TokenId> ids, int top_k) {
  if (top_k <= 0 || static_cast<std::size_t>(top_k) >= ids.size()) return ids;
  std::vector<float> falling = gather(y, ids);
  std::sort(falling.begin(), falling.end(), std::greater<>());
  const float threshold = falling[static_cast<std::size_t>(top_k) - 1];
  std::erase_if(ids, [&](TokenId id) { return y[id] < threshold; });
  return ids;
}

std::vector<TokenId> keep_probable(std::span<const float> y, std::vector<TokenId> ids, double top_p,
                                   double min_p) {
  const std::vector<float> values = gather(y, ids);
  const Weights weights = softmax_weights(values);
  const float threshold =
      top_p < 1 ? top_p_threshold(values, weights, top_p) : -std::numeric_limits<float>::infinity();
  std::vector<TokenId> kept;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool likely = static_cast<double>(weights.weight[i]) >= min_p * kUnit;
    if (values[i] >= threshold && likely) kept.push_back(ids[i]);
  }
  return kept;
}

std::vector<TokenId> survivors(std::span<float> y, const SamplingRow& row) {
  std::vector<TokenId> ids = unmasked_ids(y.size(), row.mask);
  if (ids.empty()) return ids;
  divide_by_temperature(y, row.temperature);
  ids = keep_top_k(y, std::move(ids), row.top_k);
  return keep_probable(y, std::move(ids), row.top_p, row.min_p);
}

double gumbel(TokenId id, std::uint64_t seed, std::uint32_t draw, std::uint32_t choice) {
  const auto token = static_cast<std::uint32_t>(id);
  const auto words = philox4x32({token / 4, draw, choice, 0},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const double u = (static_cast<double>(words[token % 4]) + 0.5) / 0x1p32;
  return -log_f64(-log_f64(u));
}

TokenId draw_token(std::span<const float> y, std::span<const TokenId> ids, const SamplingRow& row) {
  TokenId best = -1;
  double best_value = 0;
  for (const TokenId id : ids) {
    const double value = static_cast<double>(y[id]) + gumbel(id, row.seed, row.draw, row.choice);
    if (best < 0 || value > best_value) {
      best = id;
      best_value = value;
    }
  }
  return best;
}

}  // namespace grokd::kernels::reference

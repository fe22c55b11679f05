#pragma once
// The steps of docs/numerics.md, sections 6 and 7, over one row of logits [V]. Ids are kept in rising order.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.h"

namespace grokd::kernels::reference {

/// Softmax weights in units of 2^-40 of the largest.
struct Weights {
  std::vector<std::uint64_t> weight;  // one for each value
  std::uint64_t total = 0;
};

Weights softmax_weights(std::span<const float> x);
std::vector<float> logprobs(std::span<const float> x);
/// The ids of the `count` best: log-probability falling, then id rising.
std::vector<TokenId> best_ids(std::span<const float> logprob, std::size_t count);

void add_biases(std::span<float> x, std::span<const LogitBias> biases);
void apply_penalties(std::span<float> x, const SamplingRow& row);
std::vector<TokenId> unmasked_ids(std::size_t vocab, const std::uint64_t* mask);
TokenId argmax(std::span<const float> x, std::span<const TokenId> ids);
void divide_by_temperature(std::span<float> x, double temperature);
std::vector<TokenId> keep_top_k(std::span<const float> y, std::vector<TokenId> ids, int top_k);
/// top-p, then min-p, with one set of weights.
std::vector<TokenId> keep_probable(std::span<const float> y, std::vector<TokenId> ids, double top_p,
                                   double min_p);

/// From the mask to min-p: what may be drawn. Divides y by the temperature.
std::vector<TokenId> survivors(std::span<float> y, const SamplingRow& row);

/// -log(-log(u)) of one token, from (seed, draw, choice).
double gumbel(TokenId id, std::uint64_t seed, std::uint32_t draw, std::uint32_t choice);
TokenId draw_token(std::span<const float> y, std::span<const TokenId> ids, const SamplingRow& row);

}  // namespace grokd::kernels::reference

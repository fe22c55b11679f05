#pragma once
// Settings and results of sampling one row of logits (docs/numerics.md, sections 6 and 7).

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace grokd::kernels {

struct LogitBias {
  TokenId id = 0;
  float bias = 0;
};

/// How often a token occurs; only tokens that occur in prompt or answer are listed, each once.
struct TokenCount {
  TokenId id = 0;
  std::int32_t in_prompt = 0;
  std::int32_t in_answer = 0;
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

/// One row to sample. Spans and `mask` are host memory and live until the call returns.
struct SamplingRow {
  double temperature = 1, top_p = 1, min_p = 0;  // temperature < 1e-5: greedy
  int top_k = 0;                                 // 0 = off
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::span<const TokenCount> counts;  // read only if a penalty is set
  std::span<const LogitBias> biases;
  const std::uint64_t* mask = nullptr;  // bit v set: token v may be drawn; [ceil(V/64)]; null = all
  std::uint64_t seed = 0;
  std::uint32_t draw = 0, choice = 0;  // draw = index of the token in its answer
  TokenId forced = -1;                 // >= 0: draw nothing, only score this token
};

/// `top` is filled up to its length with the best log-probabilities of the raw logits: falling, then id
/// rising.
struct SampledToken {
  TokenId id = -1;
  float logprob = 0;            // of the raw logits
  std::int32_t kept = 0;        // tokens that survived the filters; 0 if none was allowed or it was forced
  bool finite = true;           // false: a NaN or inf logit; id is -1
  std::span<TokenLogprob> top;  // host, storage of the caller
};

}  // namespace grokd::kernels

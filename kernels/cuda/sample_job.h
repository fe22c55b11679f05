#pragma once
// What the sampler gets from the host and gives back, one entry a row; lists of all rows lie one after
// another.

#include <cstdint>

#include "kernels/sampling.h"

namespace grokd::kernels::cuda {

struct SampleSettings {
  double temperature, top_p, min_p;
  std::uint64_t seed;
  float repetition, frequency, presence;
  std::int32_t penalised;  // 1: a penalty is set
  std::int32_t top_k;
  std::int32_t first_count, counts;
  std::int32_t first_bias, biases;
  std::int32_t first_mask_word;  // -1: every token may be drawn
  std::int32_t forced;
  std::int32_t first_top, top;
  std::uint32_t draw, choice;
};

struct SampleResult {
  std::int32_t id, kept, finite;
  float logprob;
};

struct SampleJob {
  const float* logits;
  std::ptrdiff_t stride;
  int vocab;
  float* working;  // [R, V]: logits on their way to the draw
  const SampleSettings* settings;
  const std::uint64_t* masks;
  const TokenCount* counts;
  const LogitBias* biases;
  SampleResult* results;
  TokenLogprob* top;
};

}  // namespace grokd::kernels::cuda

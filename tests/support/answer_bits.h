#pragma once
// What a runner answers, down to the bits, fed in chunks and token by token.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model_runner.h"

namespace grokd::test {

inline constexpr int kPrompt = 70, kAnswer = 12, kTop = 5;

/// Ids and the bits of log-probabilities of a greedy and a sampled answer, fed in chunks of 33 rows.
inline std::vector<std::uint32_t> answer_bits(const std::string& dir, RunnerOptions options) {
  const ModelConfig config = load_model_config(dir);
  options.cpu.threads = 2;
  options.cpu.force_threads = true;
  options.max_batch_tokens = 33;
  options.max_sequences = 1;
  const auto runner = load_model(dir, config, options, {});
  std::vector<std::int32_t> pages{3, 0};
  std::vector<std::uint32_t> bits;
  std::vector<TokenId> ids;
  for (int i = 0; i < kPrompt; ++i) ids.push_back(4 + i * 37 % (config.vocab_size - 4));
  for (int position = 0; position < kPrompt + kAnswer;) {
    Batch batch;
    const int rows = std::min(33, static_cast<int>(ids.size()) - position);
    batch.ids.assign(ids.begin() + position, ids.begin() + position + rows);
    batch.sequences.push_back({0, rows, position, pages});
    position += rows;
    const bool draws = position == static_cast<int>(ids.size());
    if (draws) batch.logit_rows.push_back(rows - 1), batch.sampling.emplace_back();
    std::vector<kernels::TokenLogprob> top(kTop);
    std::vector<kernels::SampledToken> sampled(batch.logit_rows.size());
    if (draws) {
      sampled[0].top = top;
      batch.sampling[0].temperature = ids.size() % 2 == 0 ? 0 : 0.9;
      batch.sampling[0].seed = 7;
      batch.sampling[0].draw = static_cast<std::uint32_t>(ids.size());
    }
    runner->run(batch, sampled);
    if (!draws) continue;
    ids.push_back(sampled[0].id);
    bits.push_back(static_cast<std::uint32_t>(sampled[0].id));
    for (const auto& entry : top) bits.push_back(std::bit_cast<std::uint32_t>(entry.logprob));
  }
  return bits;
}

}  // namespace grokd::test

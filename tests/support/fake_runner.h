#pragma once
// A model runner whose answers a test writes down. It keeps the tokens it is fed in pages, as a cache would,
// and throws on a batch that breaks the rules, so that every test also checks the batches.

#include <functional>
#include <map>
#include <stdexcept>

#include "engine/model_runner.h"

namespace grokd::test {

/// All tokens of the sequence, read back from its pages -> the next token. Draws from what the mask allows: a
/// token it forbids is replaced by the next higher one that it does not.
using Script = std::function<TokenId(std::span<const TokenId> history, const kernels::SamplingRow& row)>;

inline constexpr TokenId kNotFinite = -2;  // a script's word for a row of NaN

/// The same tokens for every request, by their place in the answer; then end-of-sequence.
inline Script answer_with(std::vector<TokenId> tokens, TokenId eos = 2) {
  return [tokens = std::move(tokens), eos](std::span<const TokenId>, const kernels::SamplingRow& row) {
    return row.draw < tokens.size() ? tokens[row.draw] : eos;
  };
}

/// A token that depends on every token before it, the seed, the choice and the draw: never the first
/// `reserved`.
inline Script hash_of_history(int vocab_size, int reserved = 4) {
  return [=](std::span<const TokenId> history, const kernels::SamplingRow& row) {
    std::uint64_t hash = row.seed * 1099511628211ULL + row.draw * 31 + row.choice;
    for (const TokenId id : history) hash = (hash ^ static_cast<std::uint64_t>(id)) * 1099511628211ULL;
    const auto range = static_cast<std::uint64_t>(vocab_size - reserved);
    return reserved + static_cast<TokenId>((hash >> 20) % range);
  };
}

class FakeRunner final : public ModelRunner {
 public:
  FakeRunner(RunnerLimits limits, Script script)
      : limits_(limits), script_(std::move(script)), cache_(cache_size(limits), -1) {}

  std::function<void(const Batch&)> before_step;  // engine thread: to look, to wait, to throw

  const RunnerLimits& limits() const override { return limits_; }

  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    if (before_step) before_step(batch);
    check(batch, sampled.size());
    for (const auto& sequence : batch.sequences) {
      for (int row = 0; row < sequence.rows; ++row) {
        slot(sequence, sequence.position + row) = batch.ids[at(sequence.first_row + row)];
      }
    }
    for (std::size_t i = 0; i < sampled.size(); ++i) sample(batch, i, sampled[i]);
  }

  /// Limits with room for everything a small test does.
  static RunnerLimits small_limits(int vocab_size) {
    RunnerLimits limits;
    limits.vocab_size = vocab_size;
    limits.context = 1024;
    limits.max_batch_tokens = 512;
    limits.max_sequences = 16;
    limits.max_logit_rows = 64;
    limits.kv_pages = 256;
    return limits;
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static std::size_t cache_size(const RunnerLimits& limits) {
    return at(limits.kv_pages * kernels::kPagePositions);
  }
  static void require(bool condition, const char* rule) {
    if (!condition) throw std::logic_error(std::string("broken batch: ") + rule);
  }

  TokenId& slot(const kernels::SequenceRows& sequence, int position) {
    const int page = sequence.pages[at(position / kernels::kPagePositions)];
    return cache_[at(page * kernels::kPagePositions + position % kernels::kPagePositions)];
  }

  void check(const Batch& batch, std::size_t sampled) const {
    require(batch.tokens() > 0 && batch.tokens() <= limits_.max_batch_tokens, "tokens of the step");
    require(batch.sequences.size() <= at(limits_.max_sequences), "sequences of the step");
    require(batch.logit_rows.size() <= at(limits_.max_logit_rows), "rows of logits");
    require(batch.sampling.size() == batch.logit_rows.size() && sampled == batch.sampling.size(),
            "sampling rows");
    for (std::size_t i = 1; i < batch.logit_rows.size(); ++i) {
      require(batch.logit_rows[i - 1] < batch.logit_rows[i], "rows of logits rise");
    }
    std::map<std::int32_t, int> holders;
    int row = 0;
    for (const auto& sequence : batch.sequences) {
      require(sequence.first_row == row && sequence.rows > 0, "rows of the sequences follow each other");
      row += sequence.rows;
      const int last = sequence.position + sequence.rows - 1;
      require(last < limits_.context, "context");
      require(last / kernels::kPagePositions < static_cast<int>(sequence.pages.size()),
              "pages cover the rows");
      for (const auto page : sequence.pages) {
        require(page >= 0 && page < limits_.kv_pages, "page exists");
        ++holders[page];
      }
    }
    for (const auto& sequence : batch.sequences) {
      for (int i = sequence.position / kernels::kPagePositions; i < static_cast<int>(sequence.pages.size());
           ++i) {
        require(holders[sequence.pages[at(i)]] == 1, "a page that is written belongs to one sequence");
      }
    }
    require(row == batch.tokens(), "every row has a sequence");
  }

  std::vector<TokenId> history(const Batch& batch, std::int32_t row) {
    for (const auto& sequence : batch.sequences) {
      if (row >= sequence.first_row + sequence.rows) continue;
      std::vector<TokenId> tokens;
      const int last = sequence.position + row - sequence.first_row;
      for (int position = 0; position <= last; ++position) tokens.push_back(slot(sequence, position));
      return tokens;
    }
    throw std::logic_error("broken batch: a row of logits without a sequence");
  }

  void sample(const Batch& batch, std::size_t i, kernels::SampledToken& sampled) {
    const auto& row = batch.sampling[i];
    const auto tokens = history(batch, batch.logit_rows[i]);
    const TokenId drawn = row.forced >= 0 ? row.forced : script_(tokens, row);
    sampled.finite = drawn != kNotFinite;
    sampled.id = sampled.finite && row.forced < 0 ? allowed(drawn, row.mask) : drawn;
    sampled.logprob = logprob(sampled.id);
    sampled.kept = 1;
    for (std::size_t k = 0; k < sampled.top.size(); ++k) {
      sampled.top[k] = {static_cast<TokenId>(k), logprob(static_cast<TokenId>(k))};
    }
  }

  TokenId allowed(TokenId id, const std::uint64_t* mask) const {
    for (int step = 0; mask != nullptr && step < limits_.vocab_size; ++step) {
      if (mask[id / 64] >> (id % 64) & 1) return id;
      id = (id + 1) % limits_.vocab_size;
    }
    return id;
  }

 public:
  /// The log-probability it gives to a token, wherever it stands.
  static float logprob(TokenId id) { return -0.25F - static_cast<float>(id % 8); }

 private:
  RunnerLimits limits_;
  Script script_;
  std::vector<TokenId> cache_;  // token at each position of each page
};

}  // namespace grokd::test

// docs/numerics.md, section 9: the number of ranks that share a model changes no bit.
#include <doctest/doctest.h>

#include <bit>
#include <thread>

#include "engine/checkpoint/synthetic_model.h"
#include "engine/model_runner.h"
#include "engine/pack_model.h"
#include "kernels/thread_group.h"
#include "tests/support/temp_folder.h"

namespace grokd {
namespace {

constexpr int kPrompt = 70, kAnswer = 12, kTop = 5;

/// Ids and the bits of log-probabilities of a greedy and a sampled answer, fed in chunks of 33 rows.
std::vector<std::uint32_t> answer_bits(const std::string& dir, int ranks,
                                       kernels::KvType kv_type = kernels::KvType::int16) {
  const ModelConfig config = load_model_config(dir);
  RunnerOptions options;
  options.tensor_parallel = ranks;
  options.kv_type = kv_type;
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

void check_ranks(const std::string& dir, std::initializer_list<int> degrees) {
  const auto alone = answer_bits(dir, 1);
  CHECK(alone.size() == (kAnswer + 1) * (kTop + 1));
  for (const int ranks : degrees) {
    CAPTURE(ranks);
    CHECK(answer_bits(dir, ranks) == alone);
  }
}

ModelConfig eight_heads() {
  ModelConfig config = load_model_config(GROKD_CHECKPOINT_DIR "/tiny-a");
  config.emb_size = 128;
  config.num_layers = 3;
  config.num_q_heads = 16;
  config.num_kv_heads = 8;
  config.key_size = 16;
  config.ffn_size = 320;
  config.scale_groups = 8;
  return config;
}

TEST_CASE("two ranks give the bits of one on the golden models") {
  for (const std::string dir : {GROKD_CHECKPOINT_DIR "/tiny-b", GROKD_DEMO_MODEL}) {
    CAPTURE(dir);
    check_ranks(dir, {2});
  }
}

TEST_CASE("two ranks give the bits of one with an int8 cache, which are not those of an int16 cache") {
  const auto alone = answer_bits(GROKD_DEMO_MODEL, 1, kernels::KvType::int8);
  CHECK(answer_bits(GROKD_DEMO_MODEL, 2, kernels::KvType::int8) == alone);
  CHECK(answer_bits(GROKD_DEMO_MODEL, 1) != alone);
}

TEST_CASE("a packed model gives the bits of its checkpoint, for one rank and for two") {
  for (const std::string dir : {GROKD_CHECKPOINT_DIR "/tiny-b", GROKD_DEMO_MODEL}) {
    CAPTURE(dir);
    const auto unpacked = answer_bits(dir, 1);
    for (const int ranks : {1, 2}) {
      const test::TempFolder folder;
      pack_model(dir, load_model_config(dir), folder.path(), {.tensor_parallel = ranks}, {});
      CHECK(answer_bits(folder.path(), 0) == unpacked);
    }
  }
}

TEST_CASE("two, four and eight ranks give the bits of one on a model with eight key-value heads") {
  const test::TempFolder folder;
  write_synthetic_model(eight_heads(), folder.path(), 11, {});
  check_ranks(folder.path(), {2, 4, 8});
}

TEST_CASE("a number of ranks that does not divide the heads is refused with those that do") {
  const ModelConfig config = load_model_config(GROKD_DEMO_MODEL);
  RunnerOptions options;
  options.tensor_parallel = 4;
  CHECK_THROWS_WITH_AS(load_model(GROKD_DEMO_MODEL, config, options, {}),
                       doctest::Contains("tensor parallel 4 does not divide"), ConfigError);
}

TEST_CASE("a rank that gives up sets the others free") {
  kernels::ThreadGroup group(2);
  std::vector<float> y(64, 1.0f);
  bool freed = false;
  std::thread other([&] {
    try {
      group.rank(1).sum({y.data(), 1, 64});
    } catch (const kernels::GroupBroken&) {
      freed = true;
    }
  });
  group.abandon();
  other.join();
  CHECK(freed);
  CHECK_THROWS_AS(group.rank(0).sum({y.data(), 1, 64}), kernels::GroupBroken);
}

TEST_CASE("the sum of a group is the tree over its ranks, on every rank") {
  constexpr int kRanks = 8, kRows = 3, kCols = 301;
  std::vector<std::vector<float>> parts(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    for (int i = 0; i < kRows * kCols; ++i) {
      parts[static_cast<std::size_t>(r)].push_back(
          static_cast<float>((i * 2654435761u + static_cast<unsigned>(r) * 40503u) % 10007) * 1.7e-3f - 8);
    }
  }
  const auto before = parts;
  kernels::ThreadGroup group(kRanks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      group.rank(r).sum({parts[static_cast<std::size_t>(r)].data(), kRows, kCols});
    });
  }
  threads.clear();
  for (std::size_t i = 0; i < before[0].size(); ++i) {
    const auto at = [&](std::size_t r) { return before[r][i]; };
    const float left = (at(0) + at(1)) + (at(2) + at(3)), right = (at(4) + at(5)) + (at(6) + at(7));
    for (const auto& part : parts) REQUIRE(part[i] == left + right);
  }
}

}  // namespace
}  // namespace grokd

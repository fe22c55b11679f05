// docs/numerics.md, section 9: the number of ranks that share a model changes no bit.
#include <doctest/doctest.h>

#include <thread>

#include "engine/checkpoint/synthetic_model.h"
#include "engine/model_runner.h"
#include "engine/pack_model.h"
#include "kernels/thread_group.h"
#include "tests/support/answer_bits.h"
#include "tests/support/temp_folder.h"

namespace grokd {
namespace {

using test::kAnswer, test::kTop;

std::vector<std::uint32_t> answer_bits(const std::string& dir, int ranks,
                                       kernels::KvType kv_type = kernels::KvType::int16) {
  RunnerOptions options;
  options.tensor_parallel = ranks;
  options.kv_type = kv_type;
  return test::answer_bits(dir, options);
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

TEST_CASE("ranks give the bits of one on the other architectures") {
  for (const std::string dir : {GROKD_VARIANT_DIR "/tiny-mixtral", GROKD_VARIANT_DIR "/tiny-llama",
                                GROKD_VARIANT_DIR "/tiny-grok2"}) {
    CAPTURE(dir);
    check_ranks(dir, {2});
  }
  check_ranks(GROKD_VARIANT_DIR "/tiny-mistral", {2, 4});
}

TEST_CASE("a packed model gives the bits of its checkpoint, for one rank and for two") {
  for (const std::string dir :
       {GROKD_CHECKPOINT_DIR "/tiny-b", GROKD_VARIANT_DIR "/tiny-grok2", GROKD_DEMO_MODEL}) {
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

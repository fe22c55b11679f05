// The hash router and expert pruning: choices of config.json.

#include <doctest/doctest.h>

#include <array>

#include "engine/checkpoint/synthetic_model.h"
#include "engine/models/hash_router.h"
#include "tests/support/golden_json.h"
#include "tests/support/model_harness.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

ModelConfig small_hash_model() {
  ModelConfig config = load_model_config(GROKD_CHECKPOINT_DIR "/tiny-a");
  config.num_experts = 8;
  config.num_selected_experts = 1;
  config.hash_router = true;
  config.router_groups = 4, config.experts_per_group = 2;
  return config;
}

/// Counts the choices of all layers.
struct Choices final : ForwardObserver {
  explicit Choices(int experts) : counts(static_cast<std::size_t>(experts)) {}
  void after_attention(int, kernels::MatrixView<const float>) override {}
  void after_layer(int, kernels::MatrixView<const float>, const kernels::ExpertChoice& choice) override {
    for (int i = 0; i < choice.tokens * choice.per_token; ++i) {
      choice.expert[i] < 0 ? ++skipped : ++counts[static_cast<std::size_t>(choice.expert[i])];
    }
  }
  std::vector<int> counts;
  int skipped = 0;
};

std::vector<TokenId> some_ids(int count, int vocab) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(4 + i * 37 % (vocab - 4));
  return ids;
}

}  // namespace

TEST_CASE("the hash router gives the golden experts") {
  const auto rows = read_golden("golden-bits/units-more.json")["hash_router"];
  CHECK(rows.size() > 400);
  for (const auto& row : rows) CHECK(hash_expert(row[0], row[1], row[2], row[3]) == row[4]);
}

TEST_CASE("with 8 positions a token reaches every expert of its groups, and all experts get their share") {
  std::array<int, 8> counts{};
  for (TokenId token = 0; token < 4096; ++token) {
    for (int position = 0; position < 64; ++position) {
      ++counts[static_cast<std::size_t>(hash_expert(token, position, 4, 2))];
    }
  }
  for (const int count : counts) CHECK(count == doctest::Approx(4096 * 64 / 8).epsilon(0.02));
}

TEST_CASE("a model with the hash router runs, each token with the expert of the table, in any chunks") {
  const TempFolder folder;
  write_synthetic_model(small_hash_model(), folder.path(), 5, {});
  const ModelConfig config = load_model_config(folder.path());
  const auto ids = some_ids(90, config.vocab_size);
  std::vector<float> expected;
  std::vector<std::string> backends = runnable_isas();
  backends.insert(backends.begin(), "reference");
  for (const std::string& name : backends) {
    CAPTURE(name);
    ModelHarness model(folder.path(), make_backend(name, 2));
    Choices choices(config.num_experts);
    auto whole = model.new_sequence(90), parts = model.new_sequence(90);
    const auto logits = model.feed(whole, ids, &choices);
    std::vector<int> table(static_cast<std::size_t>(config.num_experts));
    for (int i = 0; i < 90; ++i) {
      table[static_cast<std::size_t>(hash_expert(ids[static_cast<std::size_t>(i)], i, 4, 2))] +=
          config.num_layers;
    }
    CHECK(choices.counts == table);
    model.feed(parts, {ids.begin(), ids.begin() + 33});
    CHECK(model.feed(parts, {ids.begin() + 33, ids.end()}) == logits);
    if (expected.empty()) expected = logits;
    CHECK(logits == expected);
  }
}

TEST_CASE("pruning skips more experts the higher the ratio, with the same bits on every backend") {
  const auto ids = some_ids(90, 4096);
  int before = -1;
  for (const double ratio : {0.0, 0.3, 0.6, 1.0}) {
    const TempFolder folder;
    ModelConfig config = load_model_config(GROKD_DEMO_MODEL);
    config.expert_pruning_ratio = ratio;
    config.tokenizer = GROKD_DEMO_MODEL "/tokenizer.model";
    config.checkpoint = GROKD_DEMO_MODEL "/ckpt-0";
    save_model_config(config, folder.path());
    std::vector<float> expected;
    for (const std::string& name : {std::string("reference"), runnable_isas().back()}) {
      ModelHarness model(folder.path(), make_backend(name, 2));
      Choices choices(config.num_experts);
      auto sequence = model.new_sequence(90);
      const auto logits = model.feed(sequence, ids, &choices);
      if (expected.empty()) {
        CHECK(choices.skipped > before);
        before = choices.skipped;
        expected = logits;
      }
      CHECK(logits == expected);
    }
  }
  CHECK(before <= 4 * 90);
}

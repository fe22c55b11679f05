// Against an independent float64 forward pass (tests/golden/golden): how far the contract is from exact.

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/support/golden_json.h"
#include "tests/support/model_harness.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

std::vector<TokenId> greedy(ModelHarness& m, const std::vector<TokenId>& prompt, int count) {
  auto s = m.new_sequence(static_cast<int>(prompt.size()) + count);
  std::vector<TokenId> tokens;
  std::vector<float> logits = m.feed(s, prompt);
  kernels::SamplingRow row;
  row.temperature = 0;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(m.sample(logits, row).id);
    if (i + 1 < count) logits = m.feed(s, {tokens.back()});
  }
  m.release(s);
  return tokens;
}

double relative_error(const std::vector<float>& logits, const std::vector<double>& exact) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst = std::max(worst, std::abs(logits[i] - exact[i]));
    largest = std::max(largest, std::abs(exact[i]));
  }
  return worst / largest;
}

double rms_error(const std::vector<float>& logits, const std::vector<double>& exact) {
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) sum += (logits[i] - exact[i]) * (logits[i] - exact[i]);
  return std::sqrt(sum / static_cast<double>(exact.size()));
}

/// Prompts of tiny-c whose tokens agree in float64 and contract: tests/golden/makers/accuracy.md.
const std::set<std::string> kAgreeingTinyC{"text0", "text2", "ids1", "ids2", "ids33"};

void check_against_float64(const std::string& name, double bound, const std::set<std::string>& only) {
  CAPTURE(name);
  ModelHarness m(std::string(GROKD_CHECKPOINT_DIR "/") + name, make_backend(runnable_isas().back(), 2), 16);
  const json golden = read_golden("golden/" + name + ".json");
  REQUIRE(golden["prompts"].size() >= 6);
  for (const json& prompt : golden["prompts"]) {
    const auto label = prompt["name"].get<std::string>();
    if (!only.empty() && !only.contains(label)) continue;
    CAPTURE(label);
    const auto ids = prompt["ids"].get<std::vector<TokenId>>();
    const auto exact = prompt["logits"].get<std::vector<double>>();
    auto s = m.new_sequence(static_cast<int>(ids.size()));
    const std::vector<float> logits = m.feed(s, ids);
    m.release(s);
    CHECK(relative_error(logits, exact) < bound);
    if (prompt["bf16"]["router_changes"] == 0) {
      CHECK(rms_error(logits, exact) < prompt["bf16"]["logits_rms_diff"].get<double>() / 10);
    }
    CHECK(greedy(m, ids, 16) == prompt["greedy"].get<std::vector<TokenId>>());
  }
}

}  // namespace

TEST_CASE("logits lie within 1e-3 of a float64 pass on tiny-a and tiny-b, and greedy tokens are equal") {
  check_against_float64("tiny-a", 1e-3, {});
  check_against_float64("tiny-b", 1e-3, {});
}

TEST_CASE("logits lie within 5e-3 of a float64 pass on the agreeing prompts of tiny-c") {
  check_against_float64("tiny-c", 5e-3, kAgreeingTinyC);
}

TEST_CASE("the top-p rule keeps the ids of the float64 reference, ties included") {
  auto backend = make_backend("reference");
  const json golden = read_golden("golden/tiny-a.json");
  REQUIRE(golden["top_p_examples"].size() >= 10);
  for (const json& example : golden["top_p_examples"]) {
    auto logits = example["logits"].get<std::vector<float>>();
    const auto kept = example["kept"].get<std::vector<int>>();
    CAPTURE(example.dump());
    kernels::SamplingRow row;
    row.top_p = example["top_p"].get<double>();
    kernels::SampledToken token;
    const auto columns = static_cast<std::ptrdiff_t>(logits.size());
    backend->sample({logits.data(), 1, columns, columns}, {&row, 1}, {&token, 1});
    CHECK(token.kept == static_cast<int>(kept.size()));
    CHECK(std::count(kept.begin(), kept.end(), token.id) == 1);
  }
}

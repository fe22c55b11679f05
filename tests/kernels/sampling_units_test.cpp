// The sampling vectors of tests/golden/golden-bits/units*.json.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "kernels/philox.h"
#include "kernels/reference/sampling_steps.h"
#include "tests/kernels/single_op.h"
#include "tests/support/golden_json.h"

namespace grokd::test {
namespace {

using kernels::SampledToken;
using kernels::SamplingRow;
using kernels::TokenId;
using nlohmann::json;

const char* const kUnits = "golden-bits/units.json";
const char* const kExtra = "golden-bits/units-extra.json";

/// The steps keep exactly `expected`, and every backend draws from as many.
void check_kept(const std::vector<float>& x, const SamplingRow& row, const std::vector<TokenId>& expected) {
  std::vector<float> y = x;
  CHECK(first_difference(kernels::reference::survivors(y, row), expected) == "");
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    std::set<TokenId> drawn;
    for (std::uint32_t draw = 0; draw < 20; ++draw) {
      SamplingRow with_draw = row;
      with_draw.draw = draw;
      const SampledToken token = run_sample(*backend, x, with_draw);
      CHECK(token.kept == static_cast<int>(expected.size()));
      drawn.insert(token.id);
    }
    CHECK(std::includes(expected.begin(), expected.end(), drawn.begin(), drawn.end()));
  }
}

}  // namespace

TEST_CASE("weights, total and log-probabilities are the golden ones") {
  const json unit = read_golden(kUnits)["logprob"];
  const auto x = parse_floats(unit["x_bits"]), expected = parse_floats(unit["y_bits"]);
  const auto weights = kernels::reference::softmax_weights(x);
  CHECK(first_difference(weights.weight, unit["weights"].get<std::vector<std::uint64_t>>()) == "");
  CHECK(weights.total == unit["total"]);
  CHECK(first_difference(kernels::reference::logprobs(x), expected) == "");
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    std::vector<kernels::TokenLogprob> top(x.size());
    SamplingRow row;
    row.forced = 5;
    const SampledToken token = run_sample(*backend, x, row, top);
    CHECK(token.id == 5);
    CHECK(token.logprob == expected[5]);
    for (const auto& entry : top) CHECK(entry.logprob == expected[entry.id]);
    const auto ranked = [](const auto& a, const auto& b) {
      return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
    };
    CHECK(std::is_sorted(top.begin(), top.end(), ranked));
  }
}

TEST_CASE("the filters keep the golden tokens") {
  const json units = read_golden(kUnits), extra = read_golden(kExtra);
  const auto settings = [](const json& unit) {
    SamplingRow row;
    row.temperature = unit.value("temperature", 1.0);
    row.top_k = unit.value("top_k", 0);
    row.top_p = unit.value("top_p", 1.0);
    row.min_p = unit.value("min_p", 0.0);
    return row;
  };
  for (const json& unit : units["top_p"]) {
    check_kept(unit["logits"].get<std::vector<float>>(), settings(unit), unit["kept"]);
  }
  const auto x = parse_floats(units["logprob"]["x_bits"]);
  for (const json& unit : units["filters"]) check_kept(x, settings(unit), unit["kept"]);
  for (const char* name : {"top_p", "top_k", "min_p"}) {
    for (const json& unit : extra[name])
      check_kept(parse_floats(unit["x_bits"]), settings(unit), unit["kept"]);
  }
  for (const json& unit : extra["mask"]) {
    std::uint64_t mask = 0;
    for (std::size_t id = 0; id < unit["mask"].size(); ++id)
      mask |= unit["mask"][id].get<std::uint64_t>() << id;
    SamplingRow row = settings(unit);
    row.mask = &mask;
    check_kept(parse_floats(unit["x_bits"]), row, unit["kept"]);
  }
}

TEST_CASE("the temperature divides") {
  const json cases = read_golden(kExtra)["temperature"];
  for (const json& unit : cases) {
    auto x = parse_floats(unit["x_bits"]);
    kernels::reference::divide_by_temperature(x, unit["t"]);
    CHECK(first_difference(x, parse_floats(unit["y_bits"])) == "");
  }
}

TEST_CASE("Philox gives its known answer and the Gumbel values are golden") {
  const auto words = kernels::philox4x32({0, 0, 0, 0}, {0, 0});
  CHECK(words == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const json cases = read_golden(kUnits)["gumbel"];
  for (const json& unit : cases) {
    const json& seed = unit["seed"];
    const std::uint64_t key = seed.is_number_unsigned()
                                  ? seed.get<std::uint64_t>()
                                  : static_cast<std::uint64_t>(seed.get<std::int64_t>());
    std::vector<double> y;
    for (const TokenId id : unit["ids"]) {
      y.push_back(kernels::reference::gumbel(id, key, unit["draw"], unit["choice"]));
    }
    CHECK(first_difference(y, parse_doubles(unit["y_bits"])) == "");
  }
}

TEST_CASE("equal logits: the lowest id is the argmax, the best are in id order, top-k 1 draws among them") {
  const json unit = read_golden(kExtra)["ties"];
  const auto x = parse_floats(unit["x_bits"]);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    std::vector<kernels::TokenLogprob> top(8);
    SamplingRow greedy;
    greedy.temperature = 0;
    CHECK(run_sample(*backend, x, greedy, top).id == unit["argmax"]);
    for (std::size_t i = 0; i < top.size(); ++i) CHECK(top[i].id == unit["best8"][i]);
    for (const json& draw : unit["draw"]) {
      SamplingRow row;
      row.top_k = 1;
      row.seed = draw["seed"];
      CHECK(run_sample(*backend, x, row).id == draw["token"]);
    }
  }
}

}  // namespace grokd::test

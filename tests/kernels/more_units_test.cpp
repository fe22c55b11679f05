// The vectors of tests/golden/golden-bits/units-more.json; formats in make_more_units.py.

#include <doctest/doctest.h>

#include "kernels/pack_float.h"
#include "kernels/reference/sampling_steps.h"
#include "tests/kernels/single_op.h"
#include "tests/support/golden_json.h"

namespace grokd::test {
namespace {

using kernels::LogitBias;
using kernels::SampledToken;
using kernels::SamplingRow;
using kernels::TokenCount;
using nlohmann::json;

json read_units() { return read_golden("golden-bits/units-more.json"); }

/// The settings of an entry with the memory they point into.
struct Settings {
  std::vector<LogitBias> biases;
  std::vector<TokenCount> counts;
  std::vector<std::uint64_t> mask;
  SamplingRow row;

  explicit Settings(const json& unit) {
    for (const json& entry : unit.value("bias", json::array())) biases.push_back({entry[0], entry[1]});
    for (const json& entry : unit.value("counts", json::array())) {
      counts.push_back({entry[0], entry[1], entry[2]});
    }
    row.biases = biases;
    row.counts = counts;
    row.temperature = unit.value("temperature", 1.0);
    row.top_k = unit.value("top_k", 0);
    row.top_p = unit.value("top_p", 1.0);
    row.min_p = unit.value("min_p", 0.0);
    row.repetition_penalty = unit.value("repetition", 1.0);
    row.frequency_penalty = unit.value("frequency", 0.0);
    row.presence_penalty = unit.value("presence", 0.0);
    row.seed = unit.value("seed", std::uint64_t{0});
    row.draw = unit.value("draw", 0u);
    row.choice = unit.value("choice", 0u);
  }
  void allow(const json& allowed) {
    mask.assign((allowed.size() + 63) / 64, 0);
    for (std::size_t id = 0; id < allowed.size(); ++id) {
      mask[id / 64] |= allowed[id].get<std::uint64_t>() << (id % 64);
    }
    row.mask = mask.data();
  }
};

std::vector<std::int32_t> flatten(const json& rows) {
  std::vector<std::int32_t> values;
  for (const json& row : rows) {
    for (const json& value : row) values.push_back(value);
  }
  return values;
}

/// One matrix per expert, cut out of the golden file's [X, K, N].
struct ExpertMatrices {
  int in, out, groups;
  std::vector<std::int8_t> weights;
  std::vector<float> scales;

  kernels::LinearSource source(int expert) const {
    return {{weights.data() + static_cast<std::ptrdiff_t>(expert) * in * out, in, out},
            {scales.data() + static_cast<std::ptrdiff_t>(expert) * groups * out, groups, out}};
  }
};

}  // namespace

TEST_CASE("bias and penalties give the golden logits") {
  const json cases = read_units()["edits"];
  for (const json& unit : cases) {
    const Settings settings(unit);
    auto x = parse_floats(unit["x_bits"]);
    kernels::reference::add_biases(x, settings.row.biases);
    kernels::reference::apply_penalties(x, settings.row);
    CHECK(first_difference(x, parse_floats(unit["y_bits"])) == "");
  }
}

TEST_CASE("whole rows of settings draw the golden tokens") {
  const json units = read_units()["sample"];
  const auto x = parse_floats(units["x_bits"]);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    for (const json& unit : units["rows"]) {
      CAPTURE(unit.dump());
      Settings settings(unit);
      if (unit.value("masked", false)) settings.allow(units["mask"]);
      const SampledToken token = run_sample(*backend, x, settings.row);
      CHECK(token.id == unit["token"]);
      CHECK(token.kept == unit["kept"]);
      CHECK(token.logprob == parse_floats(unit["logprob_bits"])[0]);
    }
  }
}

TEST_CASE("float matrices are packed into the golden codes and scales") {
  const json unit = read_units()["pack"];
  const int in = unit["K"], out = unit["N"], groups = unit["G"];
  const auto w = parse_floats(unit["x_bits"]);
  std::vector<std::int8_t> codes(w.size());
  std::vector<float> scales(static_cast<std::size_t>(groups) * out);
  kernels::pack_float_matrix({w.data(), in, out}, groups, {codes.data(), in, out},
                             {scales.data(), groups, out});
  CHECK(first_difference(codes, unit["codes"].get<std::vector<std::int8_t>>()) == "");
  CHECK(first_difference(scales, parse_floats(unit["scale_bits"])) == "");
}

TEST_CASE("scales coarser than the groups are repeated") {
  const json unit = read_units()["repeated_scales"];
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    const auto y = run_linear(*backend, parse_floats(unit["x_bits"]), unit["w"],
                              parse_floats(unit["scale_bits"]), unit["G"], unit["scale_rows"]);
    CHECK(first_difference(y, parse_floats(unit["y_bits"])) == "");
  }
}

TEST_CASE("gates are divided by their sum where the configuration asks for it") {
  const json unit = read_units()["renormalised"];
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    const Routed routed = run_route(*backend, parse_floats(unit["x_bits"]), parse_floats(unit["w_bits"]),
                                    unit["E"], unit["k"], 0, true);
    CHECK(first_difference(routed.experts, flatten(unit["experts"])) == "");
    CHECK(first_difference(routed.gates, parse_floats(unit["gate_bits"])) == "");
  }
}

TEST_CASE("experts whose gate is below the ratio of the best one's are skipped, NaN gates are kept") {
  const json unit = read_units()["pruned"];
  std::vector<float> gates = parse_floats(unit["gate_bits"]);
  std::vector<std::int32_t> before = flatten(unit["before"]), after = flatten(unit["after"]);
  const int k = unit["k"];
  for (int j = 0; j < k; ++j) {
    gates.push_back(std::nanf(""));
    before.push_back(j), after.push_back(j);
  }
  const int rows = static_cast<int>(gates.size()) / k;
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    const DeviceMatrix<std::int32_t> expert(*backend, before, rows, k);
    const DeviceMatrix<float> gate(*backend, gates, rows, k);
    backend->prune({expert.data(), gate.data(), rows, k}, unit["ratio"]);
    CHECK(first_difference(expert.read(), after) == "");
    CHECK(first_difference(gate.read(), gates) == "");
  }
}

TEST_CASE("attention through a window gives the golden bits") {
  const json unit = read_units()["window"];
  const auto q = parse_floats(unit["q_bits"]), k = parse_floats(unit["k_bits"]),
             v = parse_floats(unit["v_bits"]);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    for (const json& entry : unit["cases"]) {
      CAPTURE(entry["window"]);
      const auto o = run_one_head(*backend, q, k, v, unit["pos"],
                                  {1, unit["multiplier"], entry["cap"], entry["window"]});
      CHECK(first_difference(o, parse_floats(entry["y_bits"])) == "");
    }
  }
}

TEST_CASE("logits give the golden bits, with and without a final cap") {
  const json unit = read_units()["head"];
  const int width = unit["D"], vocab = unit["V"];
  const auto x = parse_floats(unit["x_bits"]), embeddings = parse_floats(unit["embedding_bits"]);
  const int rows = static_cast<int>(x.size()) / width;
  kernels::StepLimits limits = limits_of_rows(rows, width);
  limits.vocab = vocab;
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits);
    const auto head = backend->pack_head({embeddings.data(), vocab, width});
    const auto codes = backend->allocate_quantised(rows, width, 1);
    const DeviceMatrix<float> device(*backend, x, rows, width), y(*backend, rows, vocab);
    backend->quantise(device.view(), codes.view(rows));
    backend->logits(codes.view(rows), head, unit["multiplier"], 0, y.view());
    CHECK(first_difference(y.read(), parse_floats(unit["plain_bits"])) == "");
    backend->logits(codes.view(rows), head, unit["multiplier"], unit["cap"], y.view());
    CHECK(first_difference(y.read(), parse_floats(unit["capped_bits"])) == "");
  }
}

TEST_CASE("three experts in gate order, some skipped, give the golden bits") {
  const json unit = read_units()["experts"];
  const int rows = unit["T"], width = unit["E"], ffn = unit["F"], count = unit["X"], groups = unit["G"],
            per_token = unit["k"];
  const ExpertMatrices gate{width, ffn, 1, unit["gate_w"], parse_floats(unit["gate_scale_bits"])};
  const ExpertMatrices up{width, ffn, 1, unit["up_w"], parse_floats(unit["up_scale_bits"])};
  const ExpertMatrices down{ffn, width, groups, unit["down_w"], parse_floats(unit["down_scale_bits"])};
  std::vector<kernels::ExpertSource> sources;
  for (int e = 0; e < count; ++e) sources.push_back({gate.source(e), up.source(e), down.source(e)});

  kernels::StepLimits limits = limits_of_rows(rows, width, groups);
  limits.experts = count;
  limits.per_token = per_token;
  limits.ffn = ffn;
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits);
    const auto weights = backend->pack_experts(sources, groups);
    const auto codes = backend->allocate_quantised(rows, width, 1);
    const DeviceMatrix<float> x(*backend, parse_floats(unit["x_bits"]), rows, width),
        y(*backend, rows, width);
    const DeviceMatrix<float> gates(*backend, parse_floats(unit["gate_bits"]), rows, per_token);
    const DeviceMatrix<std::int32_t> experts(*backend, flatten(unit["experts"]), rows, per_token);
    backend->quantise(x.view(), codes.view(rows));
    backend->experts(codes.view(rows), {experts.data(), gates.data(), rows, per_token}, weights, y.view());
    CHECK(first_difference(y.read(), parse_floats(unit["y_bits"])) == "");
  }
}

}  // namespace grokd::test

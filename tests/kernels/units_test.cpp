// The vectors of tests/golden/golden-bits/units*.json; formats in make_bit_golden.py and make_extra_units.py.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/reference/elementary.h"
#include "kernels/reference/primitives.h"
#include "kernels/rope_table.h"
#include "tests/kernels/single_op.h"
#include "tests/support/golden_json.h"

namespace grokd::test {
namespace {

using kernels::Backend;
using nlohmann::json;

const char* const kUnits = "golden-bits/units.json";
const char* const kExtra = "golden-bits/units-extra.json";

template <class Function>
std::vector<float> map_floats(const std::vector<float>& x, Function function) {
  std::vector<float> y;
  for (const float value : x) y.push_back(function(value));
  return y;
}

void check_log(const json& unit) {
  std::vector<double> y;
  for (const double x : parse_doubles(unit["x_bits"])) y.push_back(kernels::log_f64(x));
  CHECK(first_difference(y, parse_doubles(unit["y_bits"])) == "");
}

/// Columns [first, first + count) of x [rows, cols].
std::vector<float> columns_of(const std::vector<float>& x, int cols, int first, int count) {
  std::vector<float> part;
  for (std::size_t row = 0; row < x.size() / cols; ++row) {
    const auto start = x.begin() + static_cast<std::ptrdiff_t>(row) * cols + first;
    part.insert(part.end(), start, start + count);
  }
  return part;
}

}  // namespace

TEST_CASE("elementary functions give the golden bits") {
  const json units = read_golden(kUnits);
  const auto check = [&](const char* name, float (*function)(float)) {
    CAPTURE(name);
    const auto y = map_floats(parse_floats(units[name]["x_bits"]), function);
    CHECK(first_difference(y, parse_floats(units[name]["y_bits"])) == "");
  };
  check("exp", kernels::exp_f32);
  check("tanh", kernels::tanh_f32);
  check("gelu", kernels::gelu_f32);
  const json silu = read_golden("golden-bits/units-silu.json")["silu"];
  CHECK(first_difference(map_floats(parse_floats(silu["x_bits"]), kernels::silu_f32),
                         parse_floats(silu["y_bits"])) == "");
  check_log(units["log"]);
  check_log(read_golden(kExtra)["log"]);
}

TEST_CASE("the fused multiply-add rounds once") {
  const json unit = read_golden(kUnits)["fma"];
  const auto a = parse_floats(unit["a_bits"]), b = parse_floats(unit["b_bits"]),
             c = parse_floats(unit["c_bits"]);
  std::vector<float> y;
  for (std::size_t i = 0; i < a.size(); ++i) y.push_back(std::fma(a[i], b[i], c[i]));
  CHECK(first_difference(y, parse_floats(unit["y_bits"])) == "");
}

TEST_CASE("the quantiser gives the golden codes and scales") {
  const json cases = read_golden(kUnits)["quantise"];
  for (const json& unit : cases) {
    const std::vector<float> x = parse_floats(unit["x_bits"]);
    const auto expected = unit["codes"].get<std::vector<std::int16_t>>();
    std::vector<std::int16_t> codes(x.size());
    const float scale = kernels::reference::quantise_row(x, unit["M"], codes.data());
    CHECK(first_difference(codes, expected) == "");
    CHECK(same_number(scale, parse_scale(unit["scale_bits"])));
    if (unit["M"] != 32767) continue;
    for (const auto& backend : all_backends()) {
      CAPTURE(backend->name());
      const HostCodes host = quantise_rows(*backend, x, 1, static_cast<int>(x.size()), 1);
      CHECK(first_difference(host.codes, expected) == "");
      CHECK(same_number(host.scales[0], parse_scale(unit["scale_bits"])));
    }
  }
}

TEST_CASE("linear gives the golden bits, in each group and in the tree") {
  const json unit = read_golden(kUnits)["linear"];
  const int in = unit["K"], out = unit["N"], groups = unit["G"], length = in / groups;
  const auto x = parse_floats(unit["x_bits"]), scales = parse_floats(unit["scale_bits"]);
  const auto w = unit["w"].get<std::vector<std::int8_t>>();
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    CHECK(first_difference(run_linear(*backend, x, w, scales, groups, groups),
                           parse_floats(unit["y_bits"])) == "");
    for (int g = 0; g < groups; ++g) {
      const std::vector<std::int8_t> part(w.begin() + g * length * out, w.begin() + (g + 1) * length * out);
      const std::vector<float> scale(scales.begin() + g * out, scales.begin() + (g + 1) * out);
      const auto y = run_linear(*backend, columns_of(x, in, g * length, length), part, scale, 1, 1);
      CHECK(first_difference(y, parse_floats(unit["group_bits"][g])) == "");
    }
  }
}

TEST_CASE("RMSNorm gives the golden bits, and NaN where the sum of squares overflows") {
  const json unit = read_golden(kUnits)["rms_norm"];
  const int width = unit["n"];
  std::vector<float> x = parse_floats(unit["x_bits"]);
  const auto gain = parse_floats(unit["g_bits"]);
  const int rows = static_cast<int>(x.size()) / width;
  for (int row = 0; row < rows; ++row) {
    const std::span<const float> values(x.data() + row * width, static_cast<std::size_t>(width));
    CHECK(kernels::reference::lanes_dot(values, values.data()) == parse_floats(unit["sum_sq_bits"])[row]);
  }
  const auto run = [&](Backend& backend, const std::vector<float>& h, int count, int cols) {
    const DeviceMatrix<float> device(backend, h, count, cols), normed(backend, count, cols);
    const DeviceMatrix<float> device_gain(backend, gain, 1, cols);
    const auto out = backend.allocate_quantised(count, cols, 1);
    backend.reserve(limits_of_rows(count, cols));
    backend.norm_quantise(device.view(), {}, device_gain.data(), unit["eps"], normed.view(), out.view(count));
    return normed.read();
  };
  const auto big = parse_floats(read_golden(kExtra)["rms_norm_overflow"]["x_bits"]);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    CHECK(first_difference(run(*backend, x, rows, width), parse_floats(unit["y_bits"])) == "");
    const auto y = run(*backend, big, 1, static_cast<int>(big.size()));
    CHECK(std::all_of(y.begin(), y.end(), [](float value) { return std::isnan(value); }));
  }
}

TEST_CASE("RoPE tables have the golden hashes") {
  const auto backend = kernels::make_reference_backend();
  const json cases = read_golden(kUnits)["rope_tables"];
  for (const json& unit : cases) {
    const double theta = unit["theta"];
    const int size = unit["d"], positions = unit["positions"];
    CHECK(first_difference(kernels::rope_inverse(theta, size), parse_doubles(unit["inv_bits"])) == "");
    const auto table = kernels::make_rope_table(*backend, theta, size, positions);
    const std::size_t entries = static_cast<std::size_t>(positions) * size / 2;
    CHECK(table.positions == positions);
    CHECK(table.half == size / 2);
    CHECK(fnv1a64(std::vector<float>(table.cos.as<float>(), table.cos.as<float>() + entries)) ==
          unit["cos_fnv"]);
    CHECK(fnv1a64(std::vector<float>(table.sin.as<float>(), table.sin.as<float>() + entries)) ==
          unit["sin_fnv"]);
  }
}

TEST_CASE("rotated queries and keys are the golden ones, quantised") {
  for (const char* name : {"rope_16", "rope_128"}) {
    const json unit = read_golden(kUnits)[name];
    const int size = unit["d"];
    const auto positions = unit["pos"].get<std::vector<int>>();
    const int rows = static_cast<int>(positions.size());
    const auto x = parse_floats(unit["x_bits"]), y = parse_floats(unit["y_bits"]);
    std::vector<float> qkv;  // query, key and value of a row are the same vector
    for (int row = 0; row < rows; ++row) {
      for (int part = 0; part < 3; ++part) qkv.insert(qkv.end(), &x[row * size], &x[row * size] + size);
    }
    const std::vector<std::int32_t> pages = {4, 0, 3, 1, 2};
    for (const auto& backend : all_backends()) {
      CAPTURE(backend->name());
      const HostCodes expected = quantise_rows(*backend, y, rows, size, 1);
      const auto rope = kernels::make_rope_table(*backend, unit["theta"], size, 300);
      const Cache cache(*backend, 5, 1, size);
      const DeviceMatrix<float> device(*backend, qkv, rows, 3 * size);
      const auto q = backend->allocate_quantised(rows, size, 1);
      kernels::StepLimits limits = limits_of_rows(rows, size);
      limits.sequences = rows;
      limits.heads = limits.kv_heads = 1;
      limits.head_size = size;
      limits.positions = 300;
      backend->reserve(limits);
      std::vector<kernels::SequenceRows> sequences;
      for (int row = 0; row < rows; ++row) sequences.push_back({row, 1, positions[row], pages});
      backend->rope_store(device.view(), sequences, rope, cache.layer, 1, q.view(rows));
      const HostCodes queries = read_quantised(*backend, q.view(rows));
      CHECK(first_difference(queries.codes, expected.codes) == "");
      CHECK(first_difference(queries.scales, expected.scales) == "");
      for (int row = 0; row < rows; ++row) {
        std::vector<std::int16_t> keys(64 * size), values(64 * size);
        std::vector<float> key_scales(64), value_scales(64);
        backend->read_kv(cache.layer, pages[positions[row] / 64], 64, keys.data(), key_scales.data(),
                         values.data(), value_scales.data());
        const int slot = positions[row] % 64;
        CHECK(std::equal(&keys[slot * size], &keys[slot * size] + size, &expected.codes[row * size]));
        CHECK(key_scales[slot] == expected.scales[row]);
      }
    }
  }
}

TEST_CASE("the router gives the golden logits, experts and gates") {
  const json units = read_golden(kUnits);
  for (const char* name : {"router_cap0", "router_cap30"}) {
    const json& unit = units[name];
    const int width = unit["E"], experts = unit["X"];
    const auto x = parse_floats(unit["x_bits"]), w = parse_floats(unit["w_bits"]);
    std::vector<float> z;
    for (std::size_t row = 0; row < x.size() / width; ++row) {
      for (int e = 0; e < experts; ++e) {
        const std::span<const float> values(&x[row * width], static_cast<std::size_t>(width));
        z.push_back(kernels::soft_cap(kernels::reference::lanes_dot(values, &w[e], experts), unit["cap"]));
      }
    }
    CHECK(first_difference(z, parse_floats(unit["logit_bits"])) == "");
    std::vector<std::int32_t> expected;
    for (const json& row : unit["experts"]) {
      for (const json& expert : row) expected.push_back(expert);
    }
    for (const auto& backend : all_backends()) {
      CAPTURE(backend->name());
      const Routed routed = run_route(*backend, x, w, width, unit["k"], unit["cap"]);
      CHECK(first_difference(routed.experts, expected) == "");
      CHECK(first_difference(routed.gates, parse_floats(unit["gate_bits"])) == "");
    }
  }
}

TEST_CASE("the router breaks ties and keeps vanishing gates as the golden file says") {
  const json cases = read_golden(kExtra)["router"];
  for (const json& unit : cases) {
    for (const auto& backend : all_backends()) {
      CAPTURE(backend->name());
      const Routed routed = run_route(*backend, {1}, parse_floats(unit["z_bits"]), 1, unit["k"], 0);
      CHECK(first_difference(routed.experts, unit["experts"].get<std::vector<std::int32_t>>()) == "");
      CHECK(first_difference(routed.gates, parse_floats(unit["gate_bits"])) == "");
    }
  }
}

TEST_CASE("attention over three blocks gives the golden bits, capped and uncapped") {
  const json units = read_golden(kUnits);
  const json& inputs = units["attention_inputs"];
  const auto q = parse_floats(inputs["q_bits"]), k = parse_floats(inputs["k_bits"]),
             v = parse_floats(inputs["v_bits"]);
  for (const char* name : {"attention_cap30", "attention_cap0"}) {
    const json& unit = units[name];
    for (const auto& backend : all_backends()) {
      CAPTURE(backend->name());
      const auto o = run_one_head(*backend, q, k, v, unit["pos"], {1, unit["multiplier"], unit["cap"], 0});
      CHECK(first_difference(o, parse_floats(unit["y_bits"])) == "");
    }
  }
}

}  // namespace grokd::test

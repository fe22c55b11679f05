// Whole models against tests/golden/golden-bits: every backend and instruction set, compared with ==.

#include <doctest/doctest.h>

#include <bit>

#include "engine/calibrate_kv.h"
#include "tests/support/golden_json.h"
#include "tests/support/model_harness.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

struct GoldenModel {
  std::string name, dir;
};

const std::vector<GoldenModel>& golden_models() {
  static const std::vector<GoldenModel> models{{"tiny-a", GROKD_CHECKPOINT_DIR "/tiny-a"},
                                               {"tiny-b", GROKD_CHECKPOINT_DIR "/tiny-b"},
                                               {"tiny-c", GROKD_CHECKPOINT_DIR "/tiny-c"},
                                               {"tiny-mixtral", GROKD_VARIANT_DIR "/tiny-mixtral"},
                                               {"tiny-llama", GROKD_VARIANT_DIR "/tiny-llama"},
                                               {"tiny-mistral", GROKD_VARIANT_DIR "/tiny-mistral"},
                                               {"tiny-linear", GROKD_VARIANT_DIR "/tiny-linear"},
                                               {"tiny-grok2", GROKD_VARIANT_DIR "/tiny-grok2"},
                                               {"demo", GROKD_DEMO_MODEL}};
  return models;
}

std::string hex(float value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", std::bit_cast<std::uint32_t>(value));
  return text;
}

std::string hex(const std::vector<float>& values) {
  std::string text;
  for (const float v : values) text += hex(v);
  return text;
}

/// Copies what the golden file has hashes of.
class Recorder final : public ForwardObserver {
 public:
  struct Layer {
    std::vector<float> mid, out, gates;
    std::vector<int> experts;
  };
  explicit Recorder(ModelHarness& model) : model_(model), layers(model.config().num_layers) {}
  void after_attention(int layer, kernels::MatrixView<const float> h) override {
    layers[layer].mid = copy(h);
  }
  void after_layer(int layer, kernels::MatrixView<const float> h, const kernels::ExpertChoice& c) override {
    Layer& l = layers[layer];
    l.out = copy(h);
    l.experts.resize(c.per_token);
    l.gates.resize(c.per_token);
    const std::ptrdiff_t last = std::ptrdiff_t{c.tokens - 1} * c.per_token;
    model_.backend().download(l.experts.data(), c.expert + last, sizeof(int) * c.per_token);
    model_.backend().download(l.gates.data(), c.gate + last, sizeof(float) * c.per_token);
  }

 private:
  std::vector<float> copy(kernels::MatrixView<const float> h) {
    std::vector<float> values(h.rows * h.cols);
    model_.backend().download(values.data(), h.data, sizeof(float) * values.size());
    return values;
  }
  ModelHarness& model_;

 public:
  std::vector<Layer> layers;
};

/// Hashes of the cache of one layer over `length` positions: {keys, values}.
std::pair<std::string, std::string> cache_hashes(ModelHarness& m, const ModelHarness::Sequence& s,
                                                 int layer) {
  const int heads = m.config().num_kv_heads, size = m.config().key_size;
  std::vector<std::int16_t> kc(s.length * heads * size), vc(kc.size());
  std::vector<float> ks(s.length * heads), vs(ks.size());
  for (int p = 0; p < s.length; p += kernels::kPagePositions) {
    const int count = std::min(kernels::kPagePositions, s.length - p);
    m.backend().read_kv(m.kv(layer), s.pages[p / kernels::kPagePositions], count, &kc[p * heads * size],
                        &ks[p * heads], &vc[p * heads * size], &vs[p * heads]);
  }
  auto joined = [](const std::vector<std::int16_t>& codes, const std::vector<float>& scales) {
    std::vector<unsigned char> bytes(codes.size() * 2 + scales.size() * 4);
    std::memcpy(bytes.data(), codes.data(), codes.size() * 2);
    std::memcpy(bytes.data() + codes.size() * 2, scales.data(), scales.size() * 4);
    return fnv1a64(bytes);
  };
  return {joined(kc, ks), joined(vc, vs)};
}

void check_prefill(ModelHarness& m, const json& prompt) {
  const auto ids = prompt["ids"].get<std::vector<TokenId>>();
  Recorder recorder(m);
  auto s = m.new_sequence(static_cast<int>(ids.size()));
  const std::vector<float> logits = m.feed(s, ids, &recorder);
  for (int i = 0; i < m.config().num_layers; ++i) {
    CAPTURE(i);
    const json& golden = prompt["layers"][i];
    const Recorder::Layer& layer = recorder.layers[i];
    const auto [keys, values] = cache_hashes(m, s, i);
    REQUIRE(keys == golden["k_fnv"]);
    REQUIRE(values == golden["v_fnv"]);
    REQUIRE(fnv1a64(layer.mid) == golden["mid_fnv"]);
    REQUIRE(layer.experts == golden["experts_last"].get<std::vector<int>>());
    REQUIRE(hex(layer.gates) == golden["gates_last_bits"]);
    REQUIRE(fnv1a64(layer.out) == golden["out_fnv"]);
  }
  REQUIRE(hex(logits) == prompt["logits_bits"]);
  m.release(s);
}

struct Run {
  std::vector<TokenId> tokens;
  std::vector<int> kept;
  std::string logprob_bits;
  std::vector<std::vector<TokenId>> top8_ids;
  std::vector<std::string> top8_bits;
};

Run generate(ModelHarness& m, const std::vector<TokenId>& prompt, int count, kernels::SamplingRow row) {
  Run run;
  auto s = m.new_sequence(static_cast<int>(prompt.size()) + count);
  std::vector<float> logits = m.feed(s, prompt);
  for (int i = 0; i < count; ++i) {
    kernels::TokenLogprob top[8];
    row.draw = i;
    const kernels::SampledToken t = m.sample(logits, row, top);
    run.tokens.push_back(t.id);
    run.kept.push_back(t.kept);
    run.logprob_bits += hex(t.logprob);
    run.top8_ids.emplace_back();
    run.top8_bits.emplace_back();
    for (const auto& best : top) {
      run.top8_ids.back().push_back(best.id);
      run.top8_bits.back() += hex(best.logprob);
    }
    if (i + 1 < count) logits = m.feed(s, {t.id});
  }
  m.release(s);
  return run;
}

kernels::SamplingRow settings(const json& golden) {
  kernels::SamplingRow row;
  row.seed = golden["seed"].get<std::uint64_t>();
  row.temperature = golden["temperature"].get<double>();
  row.top_p = golden["top_p"].get<double>();
  return row;
}

void check_greedy(ModelHarness& m, const json& prompt) {
  kernels::SamplingRow greedy;
  greedy.temperature = 0;
  const auto ids = prompt["ids"].get<std::vector<TokenId>>();
  REQUIRE(generate(m, ids, 16, greedy).tokens == prompt["greedy"].get<std::vector<TokenId>>());
}

void check_runs(ModelHarness& m, const json& prompt) {
  check_greedy(m, prompt);
  const auto ids = prompt["ids"].get<std::vector<TokenId>>();
  for (const json& golden : prompt["sampled"]) {
    const Run run = generate(m, ids, 16, settings(golden));
    REQUIRE(run.tokens == golden["tokens"].get<std::vector<TokenId>>());
    REQUIRE(run.kept == golden["kept"].get<std::vector<int>>());
    REQUIRE(run.logprob_bits == golden["logprob_bits"]);
    REQUIRE(run.top8_ids == golden["top8_ids"].get<std::vector<std::vector<TokenId>>>());
    REQUIRE(run.top8_bits == golden["top8_bits"].get<std::vector<std::string>>());
  }
  std::vector<std::uint64_t> mask((m.config().vocab_size + 63) / 64, ~std::uint64_t{0});
  mask[0] &= ~std::uint64_t{0b1011};  // pad, bos and unk, as a server masks them
  for (const json& golden : prompt["masked"]) {
    kernels::SamplingRow row = settings(golden);
    row.mask = mask.data();
    const Run run = generate(m, ids, 16, row);
    REQUIRE(run.tokens == golden["tokens"].get<std::vector<TokenId>>());
    REQUIRE(run.logprob_bits == golden["logprob_bits"]);
  }
}

void check_model(const GoldenModel& model, const std::string& backend, int threads) {
  CAPTURE(model.name);
  CAPTURE(backend);
  ModelHarness m(model.dir, make_backend(backend, threads), 16);
  const json golden = read_golden("golden-bits/" + model.name + ".json");
  REQUIRE(golden["prompts"].size() >= 3);
  for (const json& prompt : golden["prompts"]) {
    CAPTURE(prompt["name"].get<std::string>());
    check_prefill(m, prompt);
    check_runs(m, prompt);
  }
}

/// Calibrates as the golden file's maker did, then serves from an int8 cache.
void check_int8_cache(const GoldenModel& model, const std::string& backend, int threads) {
  CAPTURE(model.name);
  CAPTURE(backend);
  const json golden = read_golden("golden-bits/kv8-" + model.name + ".json");
  RunnerOptions options;
  options.backend = backend == "reference" ? "reference" : "cpu";
  options.cpu = {threads, backend == "reference" ? "" : backend, true};
  options.max_batch_tokens = 37;
  const KvRangeTable ranges = calibrate_kv(model.dir, load_model_config(model.dir), options,
                                           golden["calibration"].get<std::vector<TokenId>>(), ProgressSink{});
  REQUIRE(fnv1a64(ranges.keys) == golden["key_range_fnv"]);
  REQUIRE(fnv1a64(ranges.values) == golden["value_range_fnv"]);
  ModelHarness m(model.dir, make_backend(backend, threads), 16, 600, 256, &ranges);
  REQUIRE(golden["prompts"].size() >= 6);
  for (const json& prompt : golden["prompts"]) {
    CAPTURE(prompt["name"].get<std::string>());
    check_prefill(m, prompt);
    check_greedy(m, prompt);
  }
}

const std::vector<GoldenModel> kInt8CacheModels{{"tiny-a", GROKD_CHECKPOINT_DIR "/tiny-a"},
                                                {"tiny-b", GROKD_CHECKPOINT_DIR "/tiny-b"},
                                                {"demo", GROKD_DEMO_MODEL}};

}  // namespace

TEST_CASE("with an int8 cache every backend gives the golden ranges and bits") {
  std::vector<std::string> backends = runnable_isas();
  backends.push_back("reference");
  for (const std::string& backend : backends) {
    for (const GoldenModel& model : kInt8CacheModels) check_int8_cache(model, backend, 2);
  }
}

TEST_CASE("the reference backend gives the golden bits of every model") {
  for (const GoldenModel& model : golden_models()) check_model(model, "reference", 1);
}

TEST_CASE("every instruction set of the CPU backend gives the golden bits of every model") {
  for (const std::string& isa : runnable_isas()) {
    for (const GoldenModel& model : golden_models()) check_model(model, isa, 2);
  }
}

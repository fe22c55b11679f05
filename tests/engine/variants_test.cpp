// The other architectures: against independent implementations in float64, and each form on disk against the
// others. tests/golden/makers/make_variants.py makes the models, make_variant_golden.py the logits.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/pack_model.h"
#include "tests/support/golden_json.h"
#include "tests/support/model_harness.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kNames{"tiny-mixtral", "tiny-llama", "tiny-mistral", "tiny-linear",
                                      "tiny-grok2"};

bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CHECK(message.find(part) != message.npos);
  return message.find(part) != message.npos;
}

std::string dir_of(const std::string& name) { return std::string(GROKD_VARIANT_DIR "/") + name; }

std::vector<float> last_logits(ModelHarness& m, const std::vector<TokenId>& ids) {
  auto s = m.new_sequence(static_cast<int>(ids.size()));
  std::vector<float> logits = m.feed(s, ids);
  m.release(s);
  return logits;
}

std::vector<float> logits_of(const std::string& dir) {
  ModelHarness m(dir, make_backend(runnable_isas().back()));
  std::vector<TokenId> ids{1};
  for (int i = 0; i < 80; ++i) ids.push_back(4 + i * 37 % (m.config().vocab_size - 4));
  return last_logits(m, ids);
}

double relative_error(const std::vector<float>& logits, const std::vector<double>& exact) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst = std::max(worst, std::abs(logits[i] - exact[i]));
    largest = std::max(largest, std::abs(exact[i]));
  }
  return worst / largest;
}

/// A copy whose files a test may spoil.
void copy_model(const std::string& name, const TempFolder& to) {
  fs::copy(dir_of(name), to.path(), fs::copy_options::recursive);
}

void change_config(const std::string& dir, const std::function<void(json&)>& change) {
  std::ifstream in(dir + "/config.json");
  json config = json::parse(in);
  change(config);
  std::ofstream(dir + "/config.json") << config;
}

std::string complaint(const std::string& dir) {
  return message_of<ConfigError>([&] { open_model_files(dir, load_model_config(dir)); });
}

}  // namespace

TEST_CASE("logits of every architecture are within a thousandth of an independent float64 implementation") {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    ModelHarness m(dir_of(name), make_backend(runnable_isas().back(), 2));
    const json golden = read_golden("variants/" + name + ".json");
    REQUIRE(golden["prompts"].size() >= 4);
    for (const json& prompt : golden["prompts"]) {
      const auto ids = prompt["ids"].get<std::vector<TokenId>>();
      CAPTURE(ids.size());
      const double error = relative_error(last_logits(m, ids), prompt["logits"].get<std::vector<double>>());
      MESSAGE(name << " " << ids.size() << " tokens: " << error);
      CHECK(error < 1e-3);
    }
  }
}

TEST_CASE("the same weights give the same bits in every form on disk") {
  for (const std::string& name : kNames) {
    const auto from_safetensors = logits_of(dir_of(name));
    CHECK(std::isfinite(from_safetensors[0]));
    for (const std::string form : {"-xai", "-gguf"}) {
      if (!fs::exists(dir_of(name + form))) continue;
      CAPTURE(name + form);
      CHECK(logits_of(dir_of(name + form)) == from_safetensors);
    }
  }
}

TEST_CASE("a packed model of every architecture gives the bits of its checkpoint") {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const TempFolder out;
    pack_model(dir_of(name), load_model_config(dir_of(name)), out.path(), {1, 2}, {});
    CHECK(logits_of(out.path()) == logits_of(dir_of(name)));
  }
}

TEST_CASE("an unknown architecture is named with those that are known") {
  const TempFolder copy;
  copy_model("tiny-llama", copy);
  change_config(copy.path(), [](json& c) { c["architectures"][0] = "FalconForCausalLM"; });
  const std::string said = complaint(copy.path());
  CHECK(says(said,
             "config.json: architectures: \"FalconForCausalLM\" is not known (known: LlamaForCausalLM, "));
  CHECK(says(said, "MixtralForCausalLM"));
}

TEST_CASE("a configuration that contradicts the tensors is refused by their names") {
  const auto said_after = [](const std::string& model, const std::function<void(json&)>& change) {
    const TempFolder copy;
    copy_model(model, copy);
    change_config(copy.path(), change);
    return complaint(copy.path());
  };
  CHECK(
      says(said_after("tiny-llama", [](json& c) { c["intermediate_size"] = 168; }),
           "model.layers.0.mlp.gate_proj.weight: has shape [160, 96], the configuration asks for [168, 96]"));
  CHECK(says(said_after("tiny-llama", [](json& c) { c["num_hidden_layers"] = 3; }),
             "has no tensor model.layers.2.mlp.gate_proj.weight"));
  CHECK(says(said_after("tiny-llama", [](json& c) { c["num_hidden_layers"] = 1; }),
             "model.layers.1.mlp.gate_proj.weight: has no place in a llama of 1 layers"));
  CHECK(says(
      said_after("tiny-mixtral", [](json& c) { c["num_local_experts"] = 3; }),
      "model.layers.0.block_sparse_moe.gate.weight: has shape [4, 64], the configuration asks for [3, 64]"));
  CHECK(says(said_after("tiny-mixtral", [](json& c) { c["num_local_experts"] = 5; }),
             "has no tensor model.layers.0.block_sparse_moe.experts.4.w1.weight"));
  CHECK(says(said_after("tiny-llama", [](json& c) { c["attention_bias"] = true; }),
             "attention_bias: true is not supported"));
  CHECK(says(said_after("tiny-llama", [](json& c) { c["rope_scaling"]["rope_type"] = "dynamic"; }),
             "rope_type: \"dynamic\" is not known (known: default, linear, llama3, yarn)"));
  CHECK(says(said_after("tiny-llama", [](json& c) { c["hidden_act"] = "relu"; }), "hidden_act: \"relu\""));
}

TEST_CASE("a file the index names but nobody has is named") {
  const TempFolder copy;
  copy_model("tiny-mixtral", copy);
  fs::remove(copy.path() + "/model-00002-of-00002.safetensors");
  CHECK(says(complaint(copy.path()), "model-00002-of-00002.safetensors: missing, the index names it"));
}

TEST_CASE("the configuration of every architecture survives being written and read again") {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const ModelConfig config = load_model_config(dir_of(name));
    const TempFolder once, twice;
    save_model_config(config, once.path());
    const ModelConfig again = load_model_config(once.path());
    save_model_config(again, twice.path());
    CHECK(again.rope_scaling == config.rope_scaling);
    CHECK(again.model_type == config.model_type);
    const auto text = [](const std::string& dir) {
      std::ifstream in(dir + "/config.json");
      return json::parse(in);
    };
    CHECK(text(once.path()) == text(twice.path()));
  }
}

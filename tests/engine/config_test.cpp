#include "engine/models/config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

json demo_json() { return json::parse(read_file(GROKD_DEMO_MODEL "/config.json")); }

ModelConfig load(const std::string& text) {
  const TempFolder folder;
  write_file(folder / "config.json", text);
  return load_model_config(folder.path());
}

/// The complaint about the demo's config after `change`; must be one line that names the file.
template <class Change>
std::string complaint(Change change) {
  json document = demo_json();
  change(document);
  const std::string message = message_of<ConfigError>([&] { load(document.dump()); });
  CHECK(message.find("config.json: ") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

bool says(const std::string& message, const std::string& part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the demo model's configuration is read whole") {
  const ModelConfig c = load_model_config(GROKD_DEMO_MODEL);
  CHECK(c.name == "grokd-demo");
  CHECK(c.model_type == "grok-1");
  CHECK(c.vocab_size == 4096);
  CHECK(c.emb_size == 256);
  CHECK(c.num_layers == 4);
  CHECK(c.num_q_heads == 8);
  CHECK(c.num_kv_heads == 2);
  CHECK(c.key_size == 32);
  CHECK(c.ffn_size == 256);
  CHECK(c.num_experts == 8);
  CHECK(c.num_selected_experts == 2);
  CHECK(c.scale_groups == 8);
  CHECK(c.sequence_len == 1024);
  CHECK(c.attn_output_multiplier == 0.1767766952966369);
  CHECK(c.embedding_multiplier == 16);
  CHECK(c.output_multiplier == 0.5773502691896257);
  CHECK(c.rms_norm_eps == 1e-5);
  CHECK(c.rope_theta == 10000);
  CHECK(c.attn_logit_cap == 30);
  CHECK(c.eos_token == 2);
  CHECK_FALSE(c.add_bos);
  CHECK(c.special_tokens.at("<|user|>") == 7);
  CHECK(c.chat.present);
  CHECK(c.chat.assistant == "<|assistant|>\n{content}{eos}\n");
  CHECK(c.chat.stop_token_ids == std::vector<TokenId>{2});
  CHECK(c.tokenizer == "tokenizer.model");
  CHECK(c.checkpoint == "ckpt-0");
}

TEST_CASE("configurations without chat format or special tokens are read") {
  const ModelConfig c = load_model_config(GROKD_CHECKPOINT_DIR "/tiny-b");
  CHECK(c.ffn_size == 1024);
  CHECK(c.scale_groups == 2);
  CHECK(c.embedding_multiplier == 13.856406460551018);
  CHECK_FALSE(c.chat.present);
  CHECK(c.special_tokens.empty());
}

TEST_CASE("without ffn_size the experts' width follows from widening_factor") {
  const auto ffn = [](int emb, double widening) {
    json document = demo_json();
    document.erase("ffn_size");
    document["emb_size"] = emb;
    document["widening_factor"] = widening;
    return load(document.dump()).ffn_size;
  };
  CHECK(ffn(6144, 8) == 32768);
  CHECK(ffn(192, 8) == 1024);
  CHECK(ffn(64, 8) == 344);
  CHECK(ffn(64, 2) == 88);
  CHECK(ffn(256, 1.5) == 256);
}

TEST_CASE("a missing key is named") {
  for (const char* key : {"format", "model_type", "vocab_size", "emb_size", "num_layers", "num_q_heads",
                          "num_kv_heads", "key_size", "num_experts", "sequence_len", "attn_output_multiplier",
                          "embedding_multiplier_scale", "output_multiplier_scale", "attn_logit_cap"}) {
    CHECK(says(complaint([&](json& j) { j.erase(key); }), std::string(key) + ": missing"));
  }
  CHECK(says(complaint([](json& j) { j.erase("ffn_size"), j.erase("widening_factor"); }),
             "widening_factor: missing"));
}

TEST_CASE("a value of the wrong type or range is named with what was found") {
  const auto with = [](const char* key, const json& value) {
    return complaint([&](json& j) { j[key] = value; });
  };
  CHECK(says(with("vocab_size", "4096"),
             "vocab_size: must be an integer between 1 and 16777216, found \"4096\""));
  CHECK(says(with("emb_size", 0), "emb_size: must be an integer"));
  CHECK(says(with("emb_size", -1), "found -1"));
  CHECK(says(with("emb_size", 1e300), "emb_size: must be an integer"));
  CHECK(says(with("emb_size", std::uint64_t{1} << 63), "emb_size: must be an integer"));
  CHECK(says(with("emb_size", 65794), "between 1 and 65793"));
  CHECK(says(with("num_layers", 4.5), "num_layers: must be an integer"));
  CHECK(says(with("num_layers", nullptr), "num_layers: must be an integer"));
  CHECK(says(with("attn_logit_cap", 61), "attn_logit_cap: must be a number between 0.0 and 60.0, found 61"));
  CHECK(says(with("rms_norm_eps", 0), "rms_norm_eps: must be a number"));
  CHECK(says(with("attn_output_multiplier", "x"), "attn_output_multiplier: must be a number"));
  CHECK(says(with("add_bos", 1), "add_bos: must be true or false"));
  CHECK(says(with("name", 1), "name: must be a string"));
  CHECK(says(with("format", "other"), "format: must be \"grokd-config-1\""));
  CHECK(says(with("eos_token", 4096), "eos_token: must be an integer between -1 and 4095"));
  CHECK(says(with("special_tokens", json::array()), "special_tokens: must be a JSON object"));
  CHECK(says(with("special_tokens", {{"<|x|>", 4096}}), "special_tokens: <|x|>: must be an integer"));
  CHECK(says(with("chat_template", "x"), "chat_template: must be a JSON object"));
  CHECK(says(with("chat_template", {{"system", ""}}), "chat_template: user: missing"));
  CHECK(says(complaint([](json& j) { j["chat_template"]["stop_token_ids"] = 2; }),
             "stop_token_ids: must be an"));
  CHECK(says(complaint([](json& j) { j["chat_template"]["stop_token_ids"] = {-1}; }),
             "stop_token_ids: must be"));
}

TEST_CASE("the hash router and the pruning ratio are read, checked and saved") {
  json document = demo_json();
  CHECK(!load(document.dump()).hash_router);
  CHECK(load(document.dump()).expert_pruning_ratio == 0);
  document["router"] = "hash";
  document["router_groups"] = 4;
  document["experts_per_group"] = 2;
  document["num_selected_experts"] = 1;
  document["expert_pruning_ratio"] = 0.25;
  const TempFolder folder;
  save_model_config(load(document.dump()), folder.path());
  const ModelConfig config = load_model_config(folder.path());
  CHECK(config.hash_router);
  CHECK(config.router_groups == 4);
  CHECK(config.experts_per_group == 2);
  CHECK(config.expert_pruning_ratio == 0.25);
  const auto hash = [](int groups, int each, int selected) {
    return complaint([&](json& j) {
      j["router"] = "hash", j["router_groups"] = groups, j["experts_per_group"] = each;
      j["num_selected_experts"] = selected;
    });
  };
  CHECK(says(hash(3, 2, 1), "experts_per_group: 3 groups of 2 are not the 8 experts (num_experts)"));
  CHECK(says(hash(4, 2, 2), "num_selected_experts: must be 1 with the hash router"));
  CHECK(says(complaint([](json& j) { j["router"] = "hash"; }), "router_groups: missing"));
  CHECK(
      says(complaint([](json& j) { j["router"] = "x"; }), "router: must be \"softmax\" or \"hash\", found"));
  CHECK(says(complaint([](json& j) { j["expert_pruning_ratio"] = 1.5; }), "expert_pruning_ratio: must be"));
}

TEST_CASE("sizes that do not fit each other are refused") {
  CHECK(says(complaint([](json& j) { j["num_q_heads"] = 7; }), "num_q_heads: 7 query heads"));
  CHECK(says(complaint([](json& j) { j["key_size"] = 33; }), "key_size: must be even"));
  CHECK(says(complaint([](json& j) { j["num_selected_experts"] = 9; }), "num_selected_experts: more than"));
  CHECK(says(complaint([](json& j) { j["scale_groups"] = 3; }), "scale_groups: 3 groups do not divide"));
  CHECK(says(complaint([](json& j) { j["ffn_size"] = 255; }), "second matrix"));
  CHECK(says(complaint([](json& j) { j["ffn_size"] = 8 * 65800; }), "at most 65793"));
}

TEST_CASE("a file that is no JSON object is refused by name") {
  CHECK(says(message_of<ConfigError>([] { load_model_config("/nonexistent"); }),
             "/nonexistent/config.json: cannot be opened"));
  CHECK(says(message_of<ConfigError>([] { load("{\"format\": "); }), "config.json: not valid JSON"));
  CHECK(says(message_of<ConfigError>([] { load(""); }), "config.json: not valid JSON"));
  CHECK(says(message_of<ConfigError>([] { load("[1]"); }), "config.json: must be a JSON object"));
  const std::string deep = message_of<ConfigError>([] { load(std::string(100000, '[')); });
  CHECK(says(deep, "config.json: not valid JSON"));
}

TEST_CASE("a configuration that is saved reads back the same") {
  for (const ModelConfig& config : {load_model_config(GROKD_DEMO_MODEL), preset_config("grok-1")}) {
    const TempFolder once, twice;
    save_model_config(config, once.path());
    save_model_config(load_model_config(once.path()), twice.path());
    CHECK(read_file(once / "config.json") == read_file(twice / "config.json"));
    CHECK(load_model_config(once.path()).output_multiplier == config.output_multiplier);
  }
  CHECK(says(message_of<ConfigError>([] { save_model_config(preset_config("small"), "/nonexistent"); }),
             "/nonexistent/config.json: cannot be written"));
}

TEST_CASE("the preset grok-1 is xAI's model") {
  const ModelConfig c = preset_config("grok-1");
  CHECK(c.vocab_size == 131072);
  CHECK(c.emb_size == 6144);
  CHECK(c.num_layers == 64);
  CHECK(c.num_q_heads == 48);
  CHECK(c.num_kv_heads == 8);
  CHECK(c.key_size == 128);
  CHECK(c.ffn_size == 32768);
  CHECK(c.sequence_len == 8192);
  CHECK(c.scale_groups == 8);
  CHECK(c.attn_output_multiplier == 0.08838834764831845);
  CHECK(c.embedding_multiplier == 78.38367176906169);
  CHECK(c.output_multiplier == 0.5773502691896257);
  CHECK(c.attn_logit_cap == 30);
}

TEST_CASE("an unknown preset is answered with the known ones") {
  CHECK(says(message_of<ConfigError>([] { preset_config("grok-9"); }),
             "unknown preset \"grok-9\" (known: grok-1, small, medium)"));
}

#include "engine/models/hf_config.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/models/config_fields.h"
#include "engine/models/hf_files.h"

namespace grokd {
namespace {

using nlohmann::json;

constexpr double kLargest = 1e12, kSmallest = 1e-12;
constexpr int kMaxSize = 1 << 24;

void read_sizes(const Fields& f, ModelConfig& c) {
  c.vocab_size = f.integer("vocab_size", 1, kMaxSize);
  c.emb_size = f.integer("hidden_size", 1, 65793);
  c.num_layers = f.integer("num_hidden_layers", 1, 4096);
  c.num_q_heads = f.integer("num_attention_heads", 1, 4096);
  c.num_kv_heads = f.integer("num_key_value_heads", 1, 4096, c.num_q_heads);
  if (!f.has("head_dim") && c.emb_size % c.num_q_heads != 0)
    f.fail("hidden_size", "is no multiple of num_attention_heads, and there is no head_dim");
  c.key_size = f.integer("head_dim", 2, 4096, c.emb_size / c.num_q_heads);
  c.sequence_len = f.integer("max_position_embeddings", 1, kMaxSize);
  c.rms_norm_eps = f.number("rms_norm_eps", 1e-12, 1, c.rms_norm_eps);
}

/// Newer files keep everything about RoPE in one object.
void read_rope(const Fields& f, ModelConfig& c) {
  c.rope_theta = f.number("rope_theta", 1, kLargest, c.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!f.has(key)) continue;
    c.rope_scaling = read_rope_scaling(f, key, c.sequence_len);
    const Fields rope(f.child(key), f.need(key));
    c.rope_theta = rope.number("rope_theta", 1, kLargest, c.rope_theta);
    if (rope.has("partial_rotary_factor")) rope.fail("partial_rotary_factor", "is not supported");
  }
}

void refuse(const Fields& f, std::initializer_list<const char*> flags) {
  for (const char* flag : flags) {
    if (f.boolean(flag, false)) f.fail(flag, "true is not supported");
  }
}

/// Norms before attention and feed-forward only, SiLU, plain multipliers.
void read_llama_like(const Fields& f, ModelConfig& c) {
  refuse(f, {"attention_bias", "mlp_bias"});
  if (const std::string act = f.text("hidden_act", "silu"); act != "silu")
    f.fail("hidden_act", "\"" + act + "\" is not supported, silu is");
  c.activation = kernels::Activation::silu;
  c.post_norms = false;
  c.attn_output_multiplier = 1 / std::sqrt(static_cast<double>(c.key_size));
  c.tied_embeddings = f.boolean("tie_word_embeddings", false);
  c.sliding_window = f.integer("sliding_window", 1, kMaxSize, 0);
  c.rope_theta = 10000;
  read_rope(f, c);
}

void read_dense(const Fields& f, ModelConfig& c) {
  read_llama_like(f, c);
  c.ffn_size = f.integer("intermediate_size", 1, kMaxSize);
  c.num_experts = c.num_selected_experts = 1;
}

void read_mixtral(const Fields& f, ModelConfig& c) {
  c.rope_theta = 1e6;
  read_llama_like(f, c);
  c.ffn_size = f.integer("intermediate_size", 1, kMaxSize);
  c.num_experts = f.integer("num_local_experts", 2, 4096);
  c.num_selected_experts = f.integer("num_experts_per_tok", 1, 4096);
  c.renormalize_gates = true;
}

void read_multipliers(const Fields& f, ModelConfig& c) {
  c.embedding_multiplier = f.number("embedding_multiplier_scale", kSmallest, kLargest);
  c.output_multiplier = f.number("output_multiplier_scale", kSmallest, kLargest);
}

void read_grok1(const Fields& f, ModelConfig& c) {
  read_multipliers(f, c);
  c.attn_output_multiplier =
      f.number("attn_output_multiplier", kSmallest, kLargest, 1 / std::sqrt(static_cast<double>(c.key_size)));
  c.attn_logit_cap = f.number("max_attn_value", 0, 60, 30);
  c.tied_embeddings = f.boolean("tie_word_embeddings", true);
  c.ffn_size = f.integer("intermediate_size", 1, kMaxSize);
  c.num_experts = f.has("num_local_experts") ? f.integer("num_local_experts", 2, 4096)
                                             : f.integer("num_experts", 2, 4096);
  c.num_selected_experts = f.integer("num_experts_per_tok", 1, 4096);
}

/// As sglang, the release's serving code, reads it: docs/decisions.md, "Grok-2".
void read_grok2(const Fields& f, ModelConfig& c) {
  read_multipliers(f, c);
  c.attn_output_multiplier = 1 / std::sqrt(static_cast<double>(c.key_size));
  c.attn_logit_cap = f.number("attn_logit_softcapping", 0, 60, 30);
  c.router_logit_cap = f.number("router_logit_softcapping", 0, 60, 30);
  c.final_logit_cap = f.number("final_logit_softcapping", 0, kLargest, 0);
  c.attn_temperature_len = f.integer("attn_temperature_len", 2, kMaxSize, 0);
  c.tied_embeddings = f.boolean("tie_word_embeddings", false);
  c.rope_theta = f.number("rope_theta", 1, kLargest);
  if (const std::string type = f.text("rope_type", "original"); type != "original")
    f.fail("rope_type", "\"" + type + "\" is not supported, original is");
  if (!f.boolean("residual_moe", false)) f.fail("residual_moe", "must be true");
  if (f.has("sliding_window_size") && f.integer("sliding_window_size", -1, kMaxSize) > 0)
    f.fail("sliding_window_size", "is not supported");
  c.dense_ffn_size = f.integer("intermediate_size", 1, kMaxSize);
  c.ffn_size = f.integer("moe_intermediate_size", 1, kMaxSize);
  c.num_experts = f.integer("num_local_experts", 2, 4096);
  c.num_selected_experts = f.integer("num_experts_per_tok", 1, 4096);
}

struct HfArchitecture {
  std::string_view name, model_type;
  void (*read)(const Fields& f, ModelConfig& c);
};

constexpr std::array<HfArchitecture, 7> kArchitectures = {{
    {"LlamaForCausalLM", "llama", read_dense},
    {"MistralForCausalLM", "mistral", read_dense},
    {"MixtralForCausalLM", "mixtral", read_mixtral},
    {"Grok1ModelForCausalLM", "grok-1", read_grok1},
    {"GrokForCausalLM", "grok-1", read_grok1},
    {"Grok1ForCausalLM", "grok-2", read_grok2},
    {"Grok2ForCausalLM", "grok-2", read_grok2},
}};

std::string architecture_name(const Fields& f) {
  const json& names = f.need("architectures");
  if (!names.is_array() || names.empty() || !names.front().is_string())
    f.fail("architectures", "must be an array of names");
  return names.front().get<std::string>();
}

const HfArchitecture& find(const Fields& f) {
  const std::string name = architecture_name(f);
  std::string known;
  for (const HfArchitecture& architecture : kArchitectures) {
    if (architecture.name == name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  f.fail("architectures", "\"" + name + "\" is not known (known: " + known + ")");
}

/// null stands for a key that is not there.
json without_nulls(const json& document) {
  json kept = json::object();
  for (const auto& [key, value] : document.items()) {
    if (!value.is_null()) kept[key] = value;
  }
  return kept;
}

}  // namespace

int choose_scale_groups(const ModelConfig& c) {
  const auto fits = [&](int groups) {
    return c.num_q_heads % groups == 0 && c.ffn_size % groups == 0 && c.dense_ffn_size % groups == 0;
  };
  for (const int groups : {8, 4, 2}) {
    if (fits(groups)) return groups;
  }
  return 1;
}

bool is_hf_config(const json& document) { return document.contains("architectures"); }

ModelConfig read_hf_config(const std::string& path, const json& document) {
  const json kept = without_nulls(document);
  const Fields f(path, kept);
  const HfArchitecture& architecture = find(f);
  ModelConfig c;
  c.model_type = std::string(architecture.model_type);
  c.checkpoint = ".";
  read_sizes(f, c);
  architecture.read(f, c);
  c.scale_groups = choose_scale_groups(c);
  read_token_files(f, path, c);
  return c;
}

}  // namespace grokd

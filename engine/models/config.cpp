#include "engine/models/config.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/gguf_checkpoint.h"
#include "engine/models/config_fields.h"
#include "engine/models/gguf_config.h"
#include "engine/models/hf_config.h"

namespace grokd {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "grokd-config-1";
// Longest sum of int8 products that a 32-bit accumulator holds: docs/numerics.md.
constexpr int kMaxDotLength = 65793;
// exp() of a capped score must stay inside the range of the exact softmax: docs/numerics.md.
constexpr double kMaxLogitCap = 60;

std::string config_path(const std::string& model_dir) {
  return (std::filesystem::path(model_dir) / "config.json").string();
}

/// Width of the expert's hidden layer as Grok-1 derives it: two thirds, rounded up to a multiple of 8.
int ffn_from_widening(int emb_size, double widening) {
  const auto wide = static_cast<long long>(widening * emb_size);
  return static_cast<int>((wide * 2 / 3 + 7) / 8 * 8);
}

void read_sizes(const Fields& f, ModelConfig& c) {
  c.vocab_size = f.integer("vocab_size", 1, 1 << 24);
  c.emb_size = f.integer("emb_size", 1, kMaxDotLength);
  c.num_layers = f.integer("num_layers", 1, 4096);
  c.num_q_heads = f.integer("num_q_heads", 1, 4096);
  c.num_kv_heads = f.integer("num_kv_heads", 1, 4096);
  c.key_size = f.integer("key_size", 2, 4096);
  c.num_experts = f.integer("num_experts", 1, 4096);
  c.num_selected_experts = f.integer("num_selected_experts", 1, 4096, c.num_selected_experts);
  c.scale_groups = f.integer("scale_groups", 1, 4096, c.scale_groups);
  c.sequence_len = f.integer("sequence_len", 1, 1 << 24);
  constexpr int kMaxFfn = 1 << 24;
  c.ffn_size = f.has("ffn_size")
                   ? f.integer("ffn_size", 1, kMaxFfn)
                   : ffn_from_widening(c.emb_size, f.number("widening_factor", 1.0 / 1024, 1024));
}

void read_router(const Fields& f, ModelConfig& c) {
  c.expert_pruning_ratio = f.number("expert_pruning_ratio", 0, 1, 0);
  const std::string router = f.text("router", "softmax");
  c.hash_router = router == "hash";
  if (!c.hash_router && router != "softmax")
    f.fail("router", "must be \"softmax\" or \"hash\", found \"" + router + "\"");
  if (!c.hash_router) return;
  c.router_groups = f.integer("router_groups", 1, 4096);
  c.experts_per_group = f.integer("experts_per_group", 1, 4096);
}

void read_numbers(const Fields& f, ModelConfig& c) {
  constexpr double kLargest = 1e9, kSmallest = 1e-9;
  c.attn_output_multiplier = f.number("attn_output_multiplier", kSmallest, kLargest);
  c.embedding_multiplier = f.number("embedding_multiplier_scale", kSmallest, kLargest);
  c.output_multiplier = f.number("output_multiplier_scale", kSmallest, kLargest);
  c.rms_norm_eps = f.number("rms_norm_eps", 1e-12, 1, c.rms_norm_eps);
  c.rope_theta = f.number("rope_theta", 1, 1e12, c.rope_theta);
  c.attn_logit_cap = f.number("attn_logit_cap", 0, kMaxLogitCap);
  c.router_logit_cap = f.number("router_logit_cap", 0, kMaxLogitCap, 0);
  c.final_logit_cap = f.number("final_logit_cap", 0, kLargest, 0);
}

/// Keys that Grok-1's files do not have.
void read_variant(const Fields& f, ModelConfig& c) {
  const std::string activation = f.text("activation", "gelu");
  if (activation != "gelu" && activation != "silu") f.fail("activation", "must be gelu or silu");
  c.activation = activation == "silu" ? kernels::Activation::silu : kernels::Activation::gelu;
  c.post_norms = f.boolean("post_norms", c.post_norms);
  c.renormalize_gates = f.boolean("renormalize_gates", c.renormalize_gates);
  c.tied_embeddings = f.boolean("tied_embeddings", c.tied_embeddings);
  c.dense_ffn_size = f.integer("dense_ffn_size", 0, 1 << 24, 0);
  c.sliding_window = f.integer("sliding_window", 0, 1 << 24, 0);
  c.attn_temperature_len = f.integer("attn_temperature_len", 0, 1 << 24, 0);
  if (f.has("rope_scaling")) c.rope_scaling = read_rope_scaling(f, "rope_scaling", 0);
  c.chat_format = f.text("chat_format", "");
  if (!f.has("more_eos")) return;
  for (const json& id : f.need("more_eos"))
    c.more_eos.push_back(f.as_integer("more_eos", id, 0, c.vocab_size - 1));
}

/// -1: the model has none.
void read_tokens(const Fields& f, ModelConfig& c) {
  const int last = c.vocab_size - 1;
  c.pad_token = f.integer("pad_token", -1, last, c.pad_token);
  c.bos_token = f.integer("bos_token", -1, last, c.bos_token);
  c.eos_token = f.integer("eos_token", -1, last, c.eos_token);
  c.unk_token = f.integer("unk_token", -1, last, c.unk_token);
  c.add_bos = f.boolean("add_bos", c.add_bos);
  if (!f.has("special_tokens")) return;
  const json& table = f.need("special_tokens");
  const Fields tokens(f.child("special_tokens"), table);
  for (const auto& [text, id] : table.items()) c.special_tokens[text] = tokens.as_integer(text, id, 0, last);
}

ChatFormat read_chat(const Fields& f, int vocab_size) {
  ChatFormat chat;
  if (!f.has("chat_template")) return chat;
  const Fields t(f.child("chat_template"), f.need("chat_template"));
  chat.present = true;
  chat.system = t.text("system");
  chat.user = t.text("user");
  chat.assistant = t.text("assistant");
  chat.generation_prompt = t.text("generation_prompt");
  if (!t.has("stop_token_ids")) return chat;
  if (!t.need("stop_token_ids").is_array()) t.fail("stop_token_ids", "must be an array of token ids");
  for (const json& id : t.need("stop_token_ids")) {
    chat.stop_token_ids.push_back(t.as_integer("stop_token_ids", id, 0, vocab_size - 1));
  }
  return chat;
}

void check_groups(const Fields& f, const ModelConfig& c, const char* what, int inputs) {
  if (inputs % c.scale_groups != 0) {
    f.fail("scale_groups", std::to_string(c.scale_groups) + " groups do not divide the " +
                               std::to_string(inputs) + " inputs of the " + what);
  }
  if (inputs / c.scale_groups > kMaxDotLength) {
    f.fail("scale_groups", "a group of the " + std::string(what) + " has " +
                               std::to_string(inputs / c.scale_groups) + " inputs, at most " +
                               std::to_string(kMaxDotLength) + " are exact");
  }
}

void check_relations(const Fields& f, const ModelConfig& c) {
  if (c.num_q_heads % c.num_kv_heads != 0) {
    f.fail("num_q_heads", std::to_string(c.num_q_heads) + " query heads cannot share " +
                              std::to_string(c.num_kv_heads) + " key heads evenly (num_kv_heads)");
  }
  if (c.key_size % 2 != 0) f.fail("key_size", "must be even, rotary embedding turns pairs");
  if (c.hash_router && c.router_groups * c.experts_per_group != c.num_experts) {
    f.fail("experts_per_group", std::to_string(c.router_groups) + " groups of " +
                                    std::to_string(c.experts_per_group) + " are not the " +
                                    std::to_string(c.num_experts) + " experts (num_experts)");
  }
  if (c.hash_router && c.num_selected_experts != 1) {
    f.fail("num_selected_experts", "must be 1 with the hash router, which gives each token one expert");
  }
  if (c.num_selected_experts > c.num_experts) {
    f.fail("num_selected_experts", "more than num_experts (" + std::to_string(c.num_experts) + ")");
  }
  if (c.attn_temperature_len == 1) f.fail("attn_temperature_len", "must be 0 or at least 2");
  if (c.attn_temperature_len > 0 && c.sequence_len > c.attn_temperature_len) {
    const double largest = std::log(c.sequence_len) / std::log(c.attn_temperature_len);
    if (c.attn_logit_cap * largest > kMaxLogitCap)
      f.fail("attn_temperature_len", "lets capped scores grow beyond 60 within the context");
  }
  check_groups(f, c, "attention output", c.num_q_heads * c.key_size);
  if (c.dense_ffn_size > 0) check_groups(f, c, "dense MLP's second matrix", c.dense_ffn_size);
  check_groups(f, c, "experts' second matrix", c.ffn_size);
}

json parse_file(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw ConfigError(path + ": cannot be opened");
  try {
    return json::parse(stream);
  } catch (const json::exception& error) {
    throw ConfigError(path + ": not valid JSON: " + error.what());
  }
}

struct Preset {
  std::string_view name;
  int emb, layers, q_heads, kv_heads, key, experts, ffn, vocab, context;
};

constexpr std::array<Preset, 3> kPresets = {{
    {"grok-1", 6144, 64, 48, 8, 128, 8, 32768, 131072, 8192},
    {"small", 512, 8, 8, 2, 64, 8, 1024, 8192, 2048},
    {"medium", 2048, 12, 16, 4, 128, 8, 4096, 32768, 4096},
}};

ModelConfig from_preset(const Preset& preset) {
  ModelConfig c;
  c.name = std::string(preset.name);
  c.model_type = "grok-1";
  c.vocab_size = preset.vocab;
  c.emb_size = preset.emb;
  c.num_layers = preset.layers;
  c.num_q_heads = preset.q_heads;
  c.num_kv_heads = preset.kv_heads;
  c.key_size = preset.key;
  c.num_experts = preset.experts;
  c.ffn_size = preset.ffn;
  c.sequence_len = preset.context;
  c.embedding_multiplier = std::sqrt(preset.emb);
  c.attn_output_multiplier = std::sqrt(1.0 / preset.key);
  c.output_multiplier = 0.5773502691896257;
  c.attn_logit_cap = 30;
  return c;
}

ordered_json chat_json(const ChatFormat& chat) {
  return {{"system", chat.system},
          {"user", chat.user},
          {"assistant", chat.assistant},
          {"generation_prompt", chat.generation_prompt},
          {"stop_token_ids", chat.stop_token_ids}};
}

/// Only what differs from Grok-1.
void add_variant(const ModelConfig& c, ordered_json& j) {
  const ModelConfig grok1;
  if (c.router_logit_cap != 0) j["router_logit_cap"] = c.router_logit_cap;
  if (c.final_logit_cap != 0) j["final_logit_cap"] = c.final_logit_cap;
  if (c.activation != grok1.activation) j["activation"] = "silu";
  if (c.post_norms != grok1.post_norms) j["post_norms"] = c.post_norms;
  if (c.renormalize_gates != grok1.renormalize_gates) j["renormalize_gates"] = c.renormalize_gates;
  if (c.tied_embeddings != grok1.tied_embeddings) j["tied_embeddings"] = c.tied_embeddings;
  if (c.dense_ffn_size != 0) j["dense_ffn_size"] = c.dense_ffn_size;
  if (c.sliding_window != 0) j["sliding_window"] = c.sliding_window;
  if (c.attn_temperature_len != 0) j["attn_temperature_len"] = c.attn_temperature_len;
  if (!(c.rope_scaling == kernels::RopeScaling{})) j["rope_scaling"] = rope_scaling_json(c.rope_scaling);
  if (!c.chat_format.empty()) j["chat_format"] = c.chat_format;
  if (!c.more_eos.empty()) j["more_eos"] = c.more_eos;
}

ordered_json config_json(const ModelConfig& c) {
  ordered_json j = {{"format", kFormat},
                    {"model_type", c.model_type},
                    {"vocab_size", c.vocab_size},
                    {"emb_size", c.emb_size},
                    {"num_layers", c.num_layers},
                    {"num_q_heads", c.num_q_heads},
                    {"num_kv_heads", c.num_kv_heads},
                    {"key_size", c.key_size},
                    {"num_experts", c.num_experts},
                    {"num_selected_experts", c.num_selected_experts},
                    {"attn_output_multiplier", c.attn_output_multiplier},
                    {"embedding_multiplier_scale", c.embedding_multiplier},
                    {"output_multiplier_scale", c.output_multiplier},
                    {"rms_norm_eps", c.rms_norm_eps},
                    {"rope_theta", c.rope_theta},
                    {"attn_logit_cap", c.attn_logit_cap},
                    {"sequence_len", c.sequence_len},
                    {"pad_token", c.pad_token},
                    {"bos_token", c.bos_token},
                    {"eos_token", c.eos_token},
                    {"unk_token", c.unk_token},
                    {"scale_groups", c.scale_groups},
                    {"name", c.name},
                    {"ffn_size", c.ffn_size},
                    {"tokenizer", c.tokenizer},
                    {"checkpoint", c.checkpoint},
                    {"add_bos", c.add_bos},
                    {"special_tokens", c.special_tokens}};
  if (c.expert_pruning_ratio > 0) j["expert_pruning_ratio"] = c.expert_pruning_ratio;
  if (c.hash_router) {
    j["router"] = "hash";
    j["router_groups"] = c.router_groups;
    j["experts_per_group"] = c.experts_per_group;
  }
  if (c.chat.present) j["chat_template"] = chat_json(c.chat);
  add_variant(c, j);
  return j;
}

std::string folder_name(const std::string& model_dir) {
  const auto path = std::filesystem::absolute(model_dir).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

namespace {

ModelConfig load_gguf_config(const std::string& model_dir) {
  ModelConfig config = read_gguf_config(model_dir);
  if (config.name.empty()) config.name = folder_name(model_dir);
  const json nothing = json::object();
  check_relations(Fields(model_dir, nothing), config);
  return config;
}

}  // namespace

ModelConfig load_model_config(const std::string& model_dir) {
  const std::string path = config_path(model_dir);
  if (!std::filesystem::exists(path) && is_gguf_checkpoint(model_dir)) return load_gguf_config(model_dir);
  const json document = parse_file(path);
  const Fields fields(path, document);
  if (!fields.has("format") && is_hf_config(document)) {
    ModelConfig config = read_hf_config(path, document);
    if (config.name.empty()) config.name = folder_name(model_dir);
    check_relations(fields, config);
    return config;
  }
  if (const std::string format = fields.text("format"); format != kFormat) {
    fields.fail("format", "must be \"" + std::string(kFormat) + "\", found \"" + format + "\"");
  }
  ModelConfig config;
  config.name = fields.text("name", folder_name(model_dir));
  config.model_type = fields.text("model_type");
  config.tokenizer = fields.text("tokenizer", config.tokenizer);
  config.checkpoint = fields.text("checkpoint", config.checkpoint);
  read_sizes(fields, config);
  read_router(fields, config);
  read_numbers(fields, config);
  read_variant(fields, config);
  read_tokens(fields, config);
  config.chat = read_chat(fields, config.vocab_size);
  check_relations(fields, config);
  return config;
}

ModelConfig preset_config(std::string_view name) {
  std::string known;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return from_preset(preset);
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw ConfigError("unknown preset \"" + std::string(name) + "\" (known: " + known + ")");
}

std::string config_text(const ModelConfig& config) { return config_json(config).dump(1) + '\n'; }

void save_model_config(const ModelConfig& config, const std::string& model_dir) {
  const std::string path = config_path(model_dir);
  std::ofstream stream(path);
  stream << config_text(config);
  stream.close();
  if (!stream) throw ConfigError(path + ": cannot be written");
}

}  // namespace grokd

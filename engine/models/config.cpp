#include "engine/models/config.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

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

/// Typed access to one JSON object; every complaint names the file and the key.
class Fields {
 public:
  Fields(std::string where, const json& object) : where_(std::move(where)), object_(object) {
    if (!object_.is_object()) throw ConfigError(where_ + ": must be a JSON object");
  }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw ConfigError(where_ + ": " + key + ": " + what);
  }
  bool has(const std::string& key) const { return object_.contains(key); }
  const json& need(const std::string& key) const {
    if (!has(key)) fail(key, "missing");
    return object_.at(key);
  }

  int integer(const std::string& key, int low, int high) const {
    return as_integer(key, need(key), low, high);
  }
  int integer(const std::string& key, int low, int high, int otherwise) const {
    return has(key) ? integer(key, low, high) : otherwise;
  }
  double number(const std::string& key, double low, double high) const {
    const json& value = need(key);
    if (!value.is_number()) fail(key, "must be a number, found " + shortened(value));
    const double x = value.get<double>();
    if (!(x >= low && x <= high)) {
      fail(key, "must be a number between " + json(low).dump() + " and " + json(high).dump() + ", found " +
                    shortened(value));
    }
    return x;
  }
  double number(const std::string& key, double low, double high, double otherwise) const {
    return has(key) ? number(key, low, high) : otherwise;
  }
  std::string text(const std::string& key) const {
    const json& value = need(key);
    if (!value.is_string()) fail(key, "must be a string, found " + shortened(value));
    return value.get<std::string>();
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    return has(key) ? text(key) : otherwise;
  }
  bool boolean(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!need(key).is_boolean()) fail(key, "must be true or false, found " + shortened(need(key)));
    return need(key).get<bool>();
  }
  int as_integer(const std::string& key, const json& value, int low, int high) const {
    const bool fits = value.is_number_integer() && value >= json(low) && value <= json(high);
    if (!fits) {
      fail(key, "must be an integer between " + std::to_string(low) + " and " + std::to_string(high) +
                    ", found " + shortened(value));
    }
    return value.get<int>();
  }
  std::string child(const std::string& key) const { return where_ + ": " + key; }

 private:
  static std::string shortened(const json& value) {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 40) + "...";
    return text;
  }
  std::string where_;
  const json& object_;
};

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
}

void read_tokens(const Fields& f, ModelConfig& c) {
  const int last = c.vocab_size - 1;
  c.pad_token = f.integer("pad_token", 0, last, c.pad_token);
  c.bos_token = f.integer("bos_token", 0, last, c.bos_token);
  c.eos_token = f.integer("eos_token", 0, last, c.eos_token);
  c.unk_token = f.integer("unk_token", 0, last, c.unk_token);
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
  check_groups(f, c, "attention output", c.num_q_heads * c.key_size);
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
  return j;
}

std::string folder_name(const std::string& model_dir) {
  const auto path = std::filesystem::absolute(model_dir).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

ModelConfig load_model_config(const std::string& model_dir) {
  const std::string path = config_path(model_dir);
  const json document = parse_file(path);
  const Fields fields(path, document);
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

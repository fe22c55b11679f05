#include "engine/plan_model.h"

#include <array>

#include "engine/models/model.h"

namespace grokd {
namespace {

struct Shape {
  std::string_view name, model_type;
  int emb, layers, q_heads, kv_heads, key, experts, ffn, vocab, context, dense_ffn;
  bool post_norms, tied;
};

constexpr std::array<Shape, 3> kShapes = {{
    {"demo", "grok-1", 256, 4, 8, 2, 32, 8, 256, 4096, 1024, 0, true, true},
    {"grok-2", "grok-2", 8192, 64, 64, 8, 128, 8, 16384, 131072, 131072, 32768, true, false},
    {"mixtral-8x7b", "mixtral", 4096, 32, 32, 8, 128, 8, 14336, 32000, 32768, 0, false, false},
}};

PlanModel from_shape(const Shape& s) {
  PlanModel model{preset_config("grok-1")};
  ModelConfig& c = model.config;
  c.name = std::string(s.name);
  c.emb_size = s.emb, c.num_layers = s.layers;
  c.num_q_heads = s.q_heads, c.num_kv_heads = s.kv_heads, c.key_size = s.key;
  c.num_experts = s.experts, c.ffn_size = s.ffn;
  c.vocab_size = s.vocab, c.sequence_len = s.context;
  c.model_type = std::string(s.model_type);
  c.dense_ffn_size = s.dense_ffn, c.post_norms = s.post_norms, c.tied_embeddings = s.tied;
  return model;
}

}  // namespace

PlanModel plan_model(const ModelConfig& config) { return {config}; }

PlanModel plan_preset(std::string_view name) {
  std::string known = "grok-1, medium, small";
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return from_shape(shape);
    known += ", " + std::string(shape.name);
  }
  for (const std::string_view loadable : {"grok-1", "medium", "small"}) {
    if (name == loadable) return plan_model(preset_config(name));
  }
  throw ConfigError("unknown preset \"" + std::string(name) + "\" (known: " + known + ")");
}

std::vector<WeightBlock> planned_blocks(const PlanModel& model, Shard shard) {
  return find_architecture(model.config.model_type).blocks(model.config, shard);
}

}  // namespace grokd

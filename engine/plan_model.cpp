#include "engine/plan_model.h"

#include <algorithm>
#include <array>

#include "engine/models/model.h"

namespace grokd {
namespace {

struct Shape {
  std::string_view name;
  int emb, layers, q_heads, kv_heads, key, experts, ffn, vocab, context, dense_ffn;
  bool double_norms, can_load;
};

constexpr std::array<Shape, 3> kShapes = {{
    {"demo", 256, 4, 8, 2, 32, 8, 256, 4096, 1024, 0, true, true},
    {"grok-2", 8192, 64, 64, 8, 128, 8, 16384, 131072, 131072, 32768, true, false},
    {"mixtral-8x7b", 4096, 32, 32, 8, 128, 8, 14336, 32000, 32768, 0, false, false},
}};

PlanModel from_shape(const Shape& s) {
  PlanModel model{preset_config("grok-1"), s.dense_ffn, s.double_norms, s.can_load};
  ModelConfig& c = model.config;
  c.name = std::string(s.name);
  c.emb_size = s.emb, c.num_layers = s.layers;
  c.num_q_heads = s.q_heads, c.num_kv_heads = s.kv_heads, c.key_size = s.key;
  c.num_experts = s.experts, c.ffn_size = s.ffn;
  c.vocab_size = s.vocab, c.sequence_len = s.context;
  return model;
}

bool ends_with_any(const WeightBlock& block, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return block.tensors.front().ends_with(end); });
}

}  // namespace

PlanModel plan_model(const ModelConfig& config) { return {config, 0, true, true}; }

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
  std::vector<WeightBlock> blocks = find_architecture(model.config.model_type).blocks(model.config, shard);
  if (!model.double_norms) {
    std::erase_if(blocks, [](const WeightBlock& b) {
      return ends_with_any(b, {"/rms_norm_1/scale", "/rms_norm_3/scale"});
    });
  }
  for (int layer = 0; model.dense_ffn > 0 && layer < model.config.num_layers; ++layer) {
    WeightBlock dense;
    dense.name = "layer " + std::to_string(layer) + " dense";
    dense.kind = BlockKind::expert;
    dense.layer = layer, dense.expert = -1;
    dense.in = model.config.emb_size, dense.out = model.dense_ffn / shard.ranks;
    dense.groups = model.config.scale_groups / shard.ranks;
    blocks.push_back(std::move(dense));
  }
  return blocks;
}

}  // namespace grokd

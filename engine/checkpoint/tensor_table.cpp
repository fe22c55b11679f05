#include "engine/checkpoint/tensor_table.h"

#include <algorithm>
#include <array>

namespace grokd {
namespace {

std::vector<TensorSpec> layer_tensors(const ModelConfig& c, int layer) {
  const std::string p = "transformer/decoder_layer_" + std::to_string(layer) + "/";
  const std::int64_t e = c.emb_size, f = c.ffn_size, x = c.num_experts, g = c.scale_groups;
  const std::int64_t q = std::int64_t{c.num_q_heads} * c.key_size,
                     kv = std::int64_t{c.num_kv_heads} * c.key_size;
  return {
      {p + "moe/linear/w", {x, e, f}, {x, 1, f}},
      {p + "moe/linear_1/w", {x, f, e}, {x, g, e}},
      {p + "moe/linear_v/w", {x, e, f}, {x, 1, f}},
      {p + "multi_head_attention/key/w", {e, kv}, {1, kv}},
      {p + "multi_head_attention/linear/w", {q, e}, {g, e}},
      {p + "multi_head_attention/query/w", {e, q}, {1, q}},
      {p + "multi_head_attention/value/w", {e, kv}, {1, kv}},
      {p + "rms_norm/scale", {e}, {}},
      {p + "rms_norm_1/scale", {e}, {}},
      {p + "rms_norm_2/scale", {e}, {}},
      {p + "rms_norm_3/scale", {e}, {}},
      {p + "router/w", {e, x}, {}},
  };
}

std::vector<TensorSpec> grok1_tensors(const ModelConfig& c) {
  std::vector<TensorSpec> table = {
      {"language_model/in_out_embed/embeddings", {c.vocab_size, c.emb_size}, {}},
      {"language_model/rms_norm/scale", {c.emb_size}, {}},
  };
  std::vector<int> order(static_cast<std::size_t>(c.num_layers));
  for (int layer = 0; layer < c.num_layers; ++layer) order[static_cast<std::size_t>(layer)] = layer;
  std::sort(order.begin(), order.end(), [](int a, int b) { return std::to_string(a) < std::to_string(b); });
  for (const int layer : order) {
    for (TensorSpec& spec : layer_tensors(c, layer)) table.push_back(std::move(spec));
  }
  return table;
}

struct Architecture {
  std::string_view model_type;
  std::vector<TensorSpec> (*tensors)(const ModelConfig&);
};

constexpr std::array<Architecture, 1> kArchitectures = {{{"grok-1", grok1_tensors}}};

}  // namespace

std::vector<TensorSpec> tensor_table(const ModelConfig& config) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == config.model_type) return architecture.tensors(config);
    known += (known.empty() ? "" : ", ") + std::string(architecture.model_type);
  }
  throw ConfigError("model_type \"" + config.model_type + "\" is not known (known: " + known + ")");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace grokd

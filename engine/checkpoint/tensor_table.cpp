#include "engine/checkpoint/tensor_table.h"

#include <algorithm>

#include "engine/models/model.h"

namespace grokd {
namespace {

void add_feed_forward(std::vector<TensorSpec>& table, const std::string& path,
                      std::vector<std::int64_t> experts, std::int64_t e, std::int64_t f, std::int64_t g) {
  const auto shape = [&](std::int64_t in, std::int64_t out) {
    std::vector<std::int64_t> dims = experts;
    dims.insert(dims.end(), {in, out});
    return dims;
  };
  table.push_back({path + "linear/w", shape(e, f), shape(1, f)});
  table.push_back({path + "linear_1/w", shape(f, e), shape(g, e)});
  table.push_back({path + "linear_v/w", shape(e, f), shape(1, f)});
}

void add_layer(std::vector<TensorSpec>& table, const ModelConfig& c, int layer) {
  const std::string p = "transformer/decoder_layer_" + std::to_string(layer) + "/";
  const std::int64_t e = c.emb_size, x = c.num_experts, g = c.scale_groups;
  const std::int64_t q = std::int64_t{c.num_q_heads} * c.key_size,
                     kv = std::int64_t{c.num_kv_heads} * c.key_size;
  if (c.dense_ffn_size > 0) add_feed_forward(table, p + "dense/", {}, e, c.dense_ffn_size, g);
  add_feed_forward(table, p + "moe/", {x}, e, c.ffn_size, g);
  table.push_back({p + "multi_head_attention/key/w", {e, kv}, {1, kv}});
  table.push_back({p + "multi_head_attention/linear/w", {q, e}, {g, e}});
  table.push_back({p + "multi_head_attention/query/w", {e, q}, {1, q}});
  table.push_back({p + "multi_head_attention/value/w", {e, kv}, {1, kv}});
  table.push_back({p + "rms_norm/scale", {e}, {}});
  if (c.post_norms) table.push_back({p + "rms_norm_1/scale", {e}, {}});
  table.push_back({p + "rms_norm_2/scale", {e}, {}});
  if (c.post_norms) table.push_back({p + "rms_norm_3/scale", {e}, {}});
  if (c.num_experts > 1) table.push_back({p + "router/w", {e, x}, {}});
}

}  // namespace

std::vector<TensorSpec> tensor_table(const ModelConfig& c) {
  find_architecture(c.model_type);
  std::vector<TensorSpec> table;
  table.push_back({"language_model/in_out_embed/embeddings", {c.vocab_size, c.emb_size}, {}});
  if (!c.tied_embeddings)
    table.push_back({"language_model/out_embed/embeddings", {c.vocab_size, c.emb_size}, {}});
  table.push_back({"language_model/rms_norm/scale", {c.emb_size}, {}});
  std::vector<int> order(static_cast<std::size_t>(c.num_layers));
  for (int layer = 0; layer < c.num_layers; ++layer) order[static_cast<std::size_t>(layer)] = layer;
  std::sort(order.begin(), order.end(), [](int a, int b) { return std::to_string(a) < std::to_string(b); });
  for (const int layer : order) add_layer(table, c, layer);
  return table;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace grokd

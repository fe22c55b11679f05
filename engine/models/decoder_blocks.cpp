// Which tensors of a decoder make which block of weights.

#include <cmath>
#include <string>

#include "engine/models/decoder.h"
#include "engine/models/decoder_slots.h"

namespace grokd {
namespace {

class Blocks {
 public:
  Blocks(const ModelConfig& config, Shard shard) : c_(config), shard_(shard) {}

  std::vector<WeightBlock> list() {
    const int d = c_.emb_size;
    const std::string embeddings = "language_model/in_out_embed/embeddings";
    const std::string head = c_.tied_embeddings ? embeddings : "language_model/out_embed/embeddings";
    if (shard_.rank == 0) add(Slot::head, BlockKind::head, "head", {head}, d, c_.vocab_size);
    add(Slot::embeddings, BlockKind::floats, "embeddings", {embeddings}, d, c_.vocab_size);
    add(Slot::final_norm, BlockKind::floats, "final norm", {"language_model/rms_norm/scale"}, d, 1);
    for (layer_ = 0; layer_ < c_.num_layers; ++layer_) add_layer();
    return std::move(blocks_);
  }

 private:
  void add(Slot slot, BlockKind kind, std::string name, std::vector<std::string> tensors, int in, int out,
           int groups = 1, int expert = 0) {
    blocks_.push_back(
        {std::move(name), kind, std::move(tensors), layer_, static_cast<int>(slot), expert, in, out, groups});
  }

  void add_layer() {
    const int d = c_.emb_size, groups = c_.scale_groups / shard_.ranks;
    const int heads = c_.num_q_heads / shard_.ranks, kv_heads = c_.num_kv_heads / shard_.ranks;
    const std::string name = "layer " + std::to_string(layer_) + " ";
    const std::string path = "transformer/decoder_layer_" + std::to_string(layer_) + "/";
    const std::string attention = path + "multi_head_attention/";
    add(Slot::norm, BlockKind::floats, name + "norm", {path + "rms_norm/scale"}, d, 1);
    if (c_.post_norms)
      add(Slot::norm_1, BlockKind::floats, name + "norm 1", {path + "rms_norm_1/scale"}, d, 1);
    add(Slot::norm_2, BlockKind::floats, name + "norm 2", {path + "rms_norm_2/scale"}, d, 1);
    if (c_.post_norms)
      add(Slot::norm_3, BlockKind::floats, name + "norm 3", {path + "rms_norm_3/scale"}, d, 1);
    if (c_.num_experts > 1)
      add(Slot::router, BlockKind::floats, name + "router", {path + "router/w"}, d, c_.num_experts);
    add(Slot::query_key_value, BlockKind::linear_out, name + "query key value",
        {attention + "query/w", attention + "key/w", attention + "value/w"}, d,
        (heads + 2 * kv_heads) * c_.key_size);
    add(Slot::attention_out, BlockKind::linear_in, name + "attention out", {attention + "linear/w"},
        heads * c_.key_size, d, groups);
    for (int e = 0; e < c_.num_experts; ++e) {
      add_feed_forward(Slot::expert, name + "expert " + std::to_string(e), path + "moe/", c_.ffn_size, e);
    }
    if (c_.dense_ffn_size > 0)
      add_feed_forward(Slot::dense, name + "dense", path + "dense/", c_.dense_ffn_size, -1);
  }

  void add_feed_forward(Slot slot, std::string name, const std::string& path, int width, int expert) {
    add(slot, BlockKind::expert, std::move(name),
        {path + "linear/w", path + "linear_v/w", path + "linear_1/w"}, c_.emb_size, width / shard_.ranks,
        c_.scale_groups / shard_.ranks, expert);
    if (c_.dense_ffn_size > 0) blocks_.back().down_factor = static_cast<float>(std::sqrt(0.5));
  }

  const ModelConfig& c_;
  const Shard shard_;
  int layer_ = -1;
  std::vector<WeightBlock> blocks_;
};

}  // namespace

std::vector<WeightBlock> decoder_blocks(const ModelConfig& config, Shard shard) {
  return Blocks(config, shard).list();
}

}  // namespace grokd

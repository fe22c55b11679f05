#include "engine/models/grok1.h"

#include <cmath>
#include <stdexcept>
#include <thread>

#include "engine/models/grok1_slots.h"
#include "engine/models/hash_router.h"
#include "engine/models/weights.h"
#include "kernels/rope_table.h"

namespace grokd {

using kernels::Buffer;
using kernels::ExpertChoice;
using kernels::KvLayer;
using kernels::MatrixView;
using kernels::Quantised;
using kernels::QuantisedBuffer;

namespace {

struct Layer {
  Buffer norm, norm_1, norm_2,
      norm_3;  // before attention, after it, before the experts, after them: [D] each
  kernels::LinearWeights query_key_value;
  kernels::LinearWeights attention_out;
  Buffer router;  // [D, E]
  kernels::ExpertWeights experts;
};

struct Weights {
  Buffer embeddings;  // [V, D]
  Buffer final_norm;  // [D]
  kernels::HeadWeights head;
  std::vector<Layer> layers;
};

/// Activations of one step, for up to T rows.
struct Scratch {
  Buffer h, normed, qkv, attended, y;
  Buffer expert, gate;
  QuantisedBuffer x, queries, attended_codes, last;
};

class Grok1 final : public Model {
 public:
  Grok1(Weights weights, const ModelSetup& setup);
  void forward(const Batch& batch, std::span<const KvLayer> kv, MatrixView<float> logits,
               ForwardObserver* observer) override;

 private:
  void attention(const Layer& layer, const Batch& batch, const KvLayer& kv, MatrixView<float> y);
  void choose_by_hash(const Batch& batch, const ExpertChoice& choice);
  void mixture(const Layer& layer, const ExpertChoice& choice, MatrixView<float> y);
  void allocate_scratch(const ModelSetup& setup);
  MatrixView<float> view(const Buffer& buffer, int cols) const { return {buffer.as<float>(), tokens_, cols}; }

  const ModelConfig config_;
  kernels::Backend& backend_;
  kernels::Communicator& group_;
  Weights weights_;
  kernels::RopeTable rope_;
  Scratch scratch_;
  std::vector<std::int32_t> hash_experts_;  // of a step's tokens, where the router is a hash
  int heads_, kv_heads_;                    // of this rank
  int tokens_ = 0;                          // rows of the step being run
};

Grok1::Grok1(Weights weights, const ModelSetup& setup)
    : config_(setup.config),
      backend_(setup.backend),
      group_(setup.group),
      weights_(std::move(weights)),
      rope_(kernels::make_rope_table(backend_, config_.rope_theta, config_.key_size, setup.context)),
      heads_(config_.num_q_heads / group_.size()),
      kv_heads_(config_.num_kv_heads / group_.size()) {
  kernels::share_rope_table(group_, backend_, rope_);
  allocate_scratch(setup);
}

void Grok1::allocate_scratch(const ModelSetup& setup) {
  const int tokens = setup.max_batch_tokens;
  auto floats = [&](std::size_t cols) { return backend_.allocate(sizeof(float) * tokens * cols); };
  const int attended = heads_ * config_.key_size;
  scratch_.h = floats(config_.emb_size);
  scratch_.normed = floats(config_.emb_size);
  scratch_.y = floats(config_.emb_size);
  scratch_.qkv = floats((heads_ + 2 * kv_heads_) * config_.key_size);
  scratch_.attended = floats(attended);
  scratch_.expert = floats(config_.num_selected_experts);
  scratch_.gate = floats(config_.num_selected_experts);
  if (config_.hash_router) {
    hash_experts_.resize(static_cast<std::size_t>(tokens));
    const std::vector<float> ones(hash_experts_.size(), 1.0f);
    backend_.upload(scratch_.gate.data(), ones.data(), sizeof(float) * ones.size());
  }
  scratch_.x = backend_.allocate_quantised(tokens, config_.emb_size, 1);
  scratch_.queries = backend_.allocate_quantised(tokens * heads_, config_.key_size, 1);
  scratch_.attended_codes =
      backend_.allocate_quantised(tokens, attended, config_.scale_groups / group_.size());
  scratch_.last = backend_.allocate_quantised(setup.max_logit_rows, config_.emb_size, 1);
  backend_.reserve({.tokens = tokens,
                    .logit_rows = setup.max_logit_rows,
                    .sequences = setup.max_sequences,
                    .width = config_.emb_size,
                    .heads = heads_,
                    .kv_heads = kv_heads_,
                    .head_size = config_.key_size,
                    .experts = config_.num_experts,
                    .per_token = config_.num_selected_experts,
                    .ffn = config_.ffn_size / group_.size(),
                    .groups = config_.scale_groups / group_.size(),
                    .vocab = config_.vocab_size,
                    .positions = setup.context});
}

void Grok1::attention(const Layer& layer, const Batch& batch, const KvLayer& kv, MatrixView<float> y) {
  const MatrixView<float> qkv = view(scratch_.qkv, (heads_ + 2 * kv_heads_) * config_.key_size);
  const MatrixView<float> attended = view(scratch_.attended, heads_ * config_.key_size);
  const Quantised queries = scratch_.queries.view(tokens_ * heads_);
  const Quantised codes = scratch_.attended_codes.view(tokens_);
  const kernels::AttentionShape shape{.heads = heads_,
                                      .multiplier = static_cast<float>(config_.attn_output_multiplier),
                                      .cap = static_cast<float>(config_.attn_logit_cap)};
  backend_.linear(scratch_.x.view(tokens_), layer.query_key_value, qkv);
  backend_.rope_store(qkv, batch.sequences, rope_, kv, heads_, queries);
  backend_.attention(queries, batch.sequences, kv, shape, attended);
  backend_.quantise(attended, codes);
  backend_.linear(codes, layer.attention_out, y);
  group_.sum(y);
}

/// The same in every layer.
void Grok1::choose_by_hash(const Batch& batch, const ExpertChoice& choice) {
  for (const kernels::SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const auto row = static_cast<std::size_t>(sequence.first_row + i);
      hash_experts_[row] = hash_expert(batch.ids[row], sequence.position + i, config_.router_groups,
                                       config_.experts_per_group);
    }
  }
  backend_.upload(choice.expert, hash_experts_.data(), sizeof(std::int32_t) * batch.ids.size());
}

void Grok1::mixture(const Layer& layer, const ExpertChoice& choice, MatrixView<float> y) {
  const MatrixView<const float> router(layer.router.as<float>(), config_.emb_size, config_.num_experts);
  if (!config_.hash_router) {
    backend_.route(view(scratch_.normed, config_.emb_size), router, 0, false, choice);
    if (config_.expert_pruning_ratio > 0) {
      backend_.prune(choice, static_cast<float>(config_.expert_pruning_ratio));
    }
  }
  backend_.experts(scratch_.x.view(tokens_), choice, layer.experts, y);
  group_.sum(y);
}

void Grok1::forward(const Batch& batch, std::span<const KvLayer> kv, MatrixView<float> logits,
                    ForwardObserver* observer) {
  tokens_ = batch.tokens();
  const int width = config_.emb_size;
  const float eps = static_cast<float>(config_.rms_norm_eps);
  const MatrixView<float> h = view(scratch_.h, width);
  const MatrixView<float> normed = view(scratch_.normed, width);
  const MatrixView<float> y = view(scratch_.y, width);
  const Quantised x = scratch_.x.view(tokens_);
  const ExpertChoice choice{scratch_.expert.as<std::int32_t>(), scratch_.gate.as<float>(), tokens_,
                            config_.num_selected_experts};
  if (config_.hash_router) choose_by_hash(batch, choice);
  const MatrixView<const float> table(weights_.embeddings.as<float>(), config_.vocab_size, width);
  backend_.embed(batch.ids, table, static_cast<float>(config_.embedding_multiplier), h);
  backend_.norm_quantise(h, {}, weights_.layers[0].norm.as<float>(), eps, {}, x);
  for (int i = 0; i < config_.num_layers; ++i) {
    const Layer& layer = weights_.layers[i];
    attention(layer, batch, kv[i], y);
    backend_.residual_norm_quantise(y, layer.norm_1.as<float>(), h, layer.norm_2.as<float>(), eps, normed, x);
    if (observer) observer->after_attention(i, h);
    mixture(layer, choice, y);
    if (i + 1 < config_.num_layers) {
      const float* next = weights_.layers[i + 1].norm.as<float>();
      backend_.residual_norm_quantise(y, layer.norm_3.as<float>(), h, next, eps, {}, x);
    } else {
      backend_.residual_norm(y, layer.norm_3.as<float>(), eps, h);
    }
    if (observer) observer->after_layer(i, h, choice);
  }
  if (batch.logit_rows.empty() || group_.rank() != 0) return;  // the output embedding is rank 0's
  const Quantised last = scratch_.last.view(static_cast<int>(batch.logit_rows.size()));
  backend_.norm_quantise(h, batch.logit_rows, weights_.final_norm.as<float>(), eps, {}, last);
  backend_.logits(last, weights_.head, static_cast<float>(config_.output_multiplier), 0, logits);
}

void place(Layer& layer, const WeightBlock& block, Buffer data) {
  switch (static_cast<Slot>(block.slot)) {
    case Slot::norm:
      layer.norm = std::move(data);
      return;
    case Slot::norm_1:
      layer.norm_1 = std::move(data);
      return;
    case Slot::norm_2:
      layer.norm_2 = std::move(data);
      return;
    case Slot::norm_3:
      layer.norm_3 = std::move(data);
      return;
    case Slot::router:
      layer.router = std::move(data);
      return;
    case Slot::query_key_value:
      layer.query_key_value = {block.in, block.out, block.groups, std::move(data)};
      return;
    case Slot::attention_out:
      layer.attention_out = {block.in, block.out, block.groups, std::move(data)};
      return;
    case Slot::expert:
      layer.experts.data[static_cast<std::size_t>(block.expert)] = std::move(data);
      return;
    default:
      throw std::logic_error(block.name + " belongs to no layer");
  }
}

/// Puts a block where the forward pass looks for it; blocks of different places may come at once.
void place(Weights& weights, const WeightBlock& block, Buffer data) {
  switch (static_cast<Slot>(block.slot)) {
    case Slot::embeddings:
      weights.embeddings = std::move(data);
      return;
    case Slot::head:
      weights.head = {block.out, block.in, std::move(data)};
      return;
    case Slot::final_norm:
      weights.final_norm = std::move(data);
      return;
    default:
      place(weights.layers[static_cast<std::size_t>(block.layer)], block, std::move(data));
  }
}

}  // namespace

std::unique_ptr<Model> load_grok1(BlockSource& source, const ModelSetup& setup) {
  const std::vector<WeightBlock> blocks =
      grok1_blocks(setup.config, {setup.group.rank(), setup.group.size()});
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(setup.config.num_layers));
  for (const WeightBlock& b : blocks) {
    if (static_cast<Slot>(b.slot) != Slot::expert) continue;
    kernels::ExpertWeights& experts = weights.layers[static_cast<std::size_t>(b.layer)].experts;
    experts.experts = setup.config.num_experts;
    experts.width = b.in, experts.ffn = b.out, experts.groups = b.groups;
    experts.data.resize(static_cast<std::size_t>(setup.config.num_experts));
  }
  std::vector<std::function<void()>> tasks;
  for (const WeightBlock& b : blocks) tasks.emplace_back([&] { place(weights, b, source.take(b)); });
  run_parallel(tasks, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  return std::make_unique<Grok1>(std::move(weights), setup);
}

}  // namespace grokd

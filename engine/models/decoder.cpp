#include "engine/models/decoder.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "engine/models/decoder_slots.h"
#include "engine/models/hash_router.h"
#include "engine/models/weights.h"
#include "kernels/reference/elementary.h"
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
  kernels::ExpertWeights dense;  // empty where there is none
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
  Buffer first_expert, whole_gate;  // [T] 0 and 1: the choice where there is none
  Buffer dense;                     // [T, D]
  QuantisedBuffer x, queries, attended_codes, last;
};

class Decoder final : public Model {
 public:
  Decoder(Weights weights, const ModelSetup& setup);
  void forward(const Batch& batch, std::span<const KvLayer> kv, MatrixView<float> logits,
               ForwardObserver* observer) override;

 private:
  struct Pass {
    const Batch& batch;
    std::span<const KvLayer> kv;
    MatrixView<float> logits;
    ForwardObserver* observer;
  };
  void run_ops(const Pass& pass);
  void attention(const Layer& layer, const Batch& batch, const KvLayer& kv, MatrixView<float> y);
  void choose_by_hash(const Batch& batch);
  ExpertChoice first_for_all() const;
  void feed_forward(const Layer& layer, const ExpertChoice& choice, MatrixView<float> y);
  void allocate_scratch(const ModelSetup& setup);
  MatrixView<float> view(const Buffer& buffer, int cols) const { return {buffer.as<float>(), tokens_, cols}; }

  const ModelConfig config_;
  kernels::Backend& backend_;
  kernels::Communicator& group_;
  Weights weights_;
  kernels::RopeTable rope_;
  Buffer temperature_;  // [positions], empty where there is none
  Scratch scratch_;
  std::vector<std::int32_t> hash_experts_;  // of a step's tokens, where the router is a hash
  int heads_, kv_heads_;                    // of this rank
  int tokens_ = 0;                          // rows of the step being run
};

/// log(p) / log(length) for positions p beyond `length`, else 1.
Buffer make_temperatures(kernels::Backend& backend, int length, int positions) {
  if (length == 0) return {};
  std::vector<float> factors(static_cast<std::size_t>(positions), 1.0f);
  for (int p = length + 1; p < positions; ++p)
    factors[static_cast<std::size_t>(p)] = static_cast<float>(kernels::log_f64(p) / kernels::log_f64(length));
  Buffer buffer = backend.allocate(factors.size() * sizeof(float));
  backend.upload(buffer.data(), factors.data(), buffer.bytes());
  return buffer;
}

Decoder::Decoder(Weights weights, const ModelSetup& setup)
    : config_(setup.config),
      backend_(setup.backend),
      group_(setup.group),
      weights_(std::move(weights)),
      rope_(kernels::make_rope_table(backend_, config_.rope_theta, config_.key_size, setup.context,
                                     config_.rope_scaling)),
      temperature_(make_temperatures(backend_, config_.attn_temperature_len, setup.context)),
      heads_(config_.num_q_heads / group_.size()),
      kv_heads_(config_.num_kv_heads / group_.size()) {
  kernels::share_rope_table(group_, backend_, rope_);
  allocate_scratch(setup);
}

void Decoder::allocate_scratch(const ModelSetup& setup) {
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
  }
  scratch_.first_expert = floats(1);  // zeroed
  scratch_.whole_gate = floats(1);
  const std::vector<float> ones(static_cast<std::size_t>(tokens), 1.0f);
  backend_.upload(scratch_.whole_gate.data(), ones.data(), scratch_.whole_gate.bytes());
  if (config_.hash_router) backend_.upload(scratch_.gate.data(), ones.data(), sizeof(float) * ones.size());
  if (config_.dense_ffn_size > 0) scratch_.dense = floats(config_.emb_size);
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
                    .ffn = std::max(config_.ffn_size, config_.dense_ffn_size) / group_.size(),
                    .groups = config_.scale_groups / group_.size(),
                    .vocab = config_.vocab_size,
                    .positions = setup.context});
}

void Decoder::attention(const Layer& layer, const Batch& batch, const KvLayer& kv, MatrixView<float> y) {
  const MatrixView<float> qkv = view(scratch_.qkv, (heads_ + 2 * kv_heads_) * config_.key_size);
  const MatrixView<float> attended = view(scratch_.attended, heads_ * config_.key_size);
  const Quantised queries = scratch_.queries.view(tokens_ * heads_);
  const Quantised codes = scratch_.attended_codes.view(tokens_);
  const kernels::AttentionShape shape{.heads = heads_,
                                      .multiplier = static_cast<float>(config_.attn_output_multiplier),
                                      .cap = static_cast<float>(config_.attn_logit_cap),
                                      .window = config_.sliding_window,
                                      .temperature = temperature_.as<float>()};
  backend_.linear(scratch_.x.view(tokens_), layer.query_key_value, qkv);
  backend_.rope_store(qkv, batch.sequences, rope_, kv, heads_, queries);
  backend_.attention(queries, batch.sequences, kv, shape, attended);
  backend_.quantise(attended, codes);
  backend_.linear(codes, layer.attention_out, y);
  group_.sum(y);
}

/// The same in every layer.
void Decoder::choose_by_hash(const Batch& batch) {
  for (const kernels::SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const auto row = static_cast<std::size_t>(sequence.first_row + i);
      hash_experts_[row] = hash_expert(batch.ids[row], sequence.position + i, config_.router_groups,
                                       config_.experts_per_group);
    }
  }
  backend_.upload(scratch_.expert.data(), hash_experts_.data(), sizeof(std::int32_t) * batch.ids.size());
}

/// The only expert, or the dense MLP, for every row.
ExpertChoice Decoder::first_for_all() const {
  return {scratch_.first_expert.as<std::int32_t>(), scratch_.whole_gate.as<float>(), tokens_, 1};
}

void Decoder::feed_forward(const Layer& layer, const ExpertChoice& choice, MatrixView<float> y) {
  if (config_.num_experts > 1 && !config_.hash_router) {
    const MatrixView<const float> router(layer.router.as<float>(), config_.emb_size, config_.num_experts);
    backend_.route(view(scratch_.normed, config_.emb_size), router,
                   static_cast<float>(config_.router_logit_cap), config_.renormalize_gates, choice);
    if (config_.expert_pruning_ratio > 0)
      backend_.prune(choice, static_cast<float>(config_.expert_pruning_ratio));
  }
  backend_.experts(scratch_.x.view(tokens_), choice, layer.experts, y);
  group_.sum(y);
  if (layer.dense.experts == 0) return;
  const MatrixView<float> dense = view(scratch_.dense, config_.emb_size);
  backend_.experts(scratch_.x.view(tokens_), first_for_all(), layer.dense, dense);
  group_.sum(dense);
  backend_.residual_norm(dense, nullptr, 0, y);  // y += dense
}

void Decoder::forward(const Batch& batch, std::span<const KvLayer> kv, MatrixView<float> logits,
                      ForwardObserver* observer) {
  tokens_ = batch.tokens();
  if (config_.hash_router) choose_by_hash(batch);  // from the host: no part of what is recorded
  if (observer != nullptr) return run_ops({batch, kv, logits, observer});
  const Pass pass{batch, kv, logits, nullptr};
  backend_.run_step({batch.ids, batch.sequences, batch.logit_rows}, [this, &pass] { run_ops(pass); });
}

void Decoder::run_ops(const Pass& pass) {
  const auto& [batch, kv, logits, observer] = pass;
  const int width = config_.emb_size;
  const float eps = static_cast<float>(config_.rms_norm_eps);
  const MatrixView<float> h = view(scratch_.h, width);
  const MatrixView<float> normed = view(scratch_.normed, width);
  const MatrixView<float> y = view(scratch_.y, width);
  const Quantised x = scratch_.x.view(tokens_);
  const ExpertChoice routed{scratch_.expert.as<std::int32_t>(), scratch_.gate.as<float>(), tokens_,
                            config_.num_selected_experts};
  const ExpertChoice choice = config_.num_experts > 1 ? routed : first_for_all();
  const MatrixView<const float> table(weights_.embeddings.as<float>(), config_.vocab_size, width);
  backend_.embed(batch.ids, table, static_cast<float>(config_.embedding_multiplier), h);
  backend_.norm_quantise(h, {}, weights_.layers[0].norm.as<float>(), eps, {}, x);
  for (int i = 0; i < config_.num_layers; ++i) {
    const Layer& layer = weights_.layers[i];
    attention(layer, batch, kv[i], y);
    backend_.residual_norm_quantise(y, layer.norm_1.as<float>(), h, layer.norm_2.as<float>(), eps, normed, x);
    if (observer) observer->after_attention(i, h);
    feed_forward(layer, choice, y);
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
  backend_.logits(last, weights_.head, static_cast<float>(config_.output_multiplier),
                  static_cast<float>(config_.final_logit_cap), logits);
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
    case Slot::dense:
      layer.dense.data.front() = std::move(data);
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

std::unique_ptr<Model> load_decoder(BlockSource& source, const ModelSetup& setup) {
  const std::vector<WeightBlock> blocks =
      decoder_blocks(setup.config, {setup.group.rank(), setup.group.size()});
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(setup.config.num_layers));
  for (const WeightBlock& b : blocks) {
    if (b.kind != BlockKind::expert) continue;
    Layer& layer = weights.layers[static_cast<std::size_t>(b.layer)];
    const bool dense = static_cast<Slot>(b.slot) == Slot::dense;
    const int count = dense ? 1 : setup.config.num_experts;
    kernels::ExpertWeights& experts = dense ? layer.dense : layer.experts;
    experts.experts = count, experts.activation = setup.config.activation;
    experts.width = b.in, experts.ffn = b.out, experts.groups = b.groups;
    experts.data.resize(static_cast<std::size_t>(count));
  }
  std::vector<std::function<void()>> tasks;
  for (const WeightBlock& b : blocks) tasks.emplace_back([&] { place(weights, b, source.take(b)); });
  run_parallel(tasks, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  return std::make_unique<Decoder>(std::move(weights), setup);
}

}  // namespace grokd

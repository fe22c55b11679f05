#include "engine/models/grok1.h"

#include <cmath>
#include <mutex>
#include <thread>

#include "engine/models/weights.h"
#include "kernels/rope_table.h"

namespace grokd {

using kernels::Buffer;
using kernels::ExpertChoice;
using kernels::KvLayer;
using kernels::LinearSource;
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
  void mixture(const Layer& layer, const ExpertChoice& choice, MatrixView<float> y);
  void allocate_scratch(const ModelSetup& setup);
  MatrixView<float> view(const Buffer& buffer, int cols) const { return {buffer.as<float>(), tokens_, cols}; }

  const ModelConfig config_;
  kernels::Backend& backend_;
  kernels::Communicator& group_;
  Weights weights_;
  kernels::RopeTable rope_;
  Scratch scratch_;
  int heads_, kv_heads_;  // of this rank
  int tokens_ = 0;        // rows of the step being run
};

Grok1::Grok1(Weights weights, const ModelSetup& setup)
    : config_(setup.config),
      backend_(setup.backend),
      group_(setup.group),
      weights_(std::move(weights)),
      rope_(kernels::make_rope_table(backend_, config_.rope_theta, config_.key_size, setup.context)),
      heads_(config_.num_q_heads / group_.size()),
      kv_heads_(config_.num_kv_heads / group_.size()) {
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

void Grok1::mixture(const Layer& layer, const ExpertChoice& choice, MatrixView<float> y) {
  const MatrixView<const float> router(layer.router.as<float>(), config_.emb_size, config_.num_experts);
  backend_.route(view(scratch_.normed, config_.emb_size), router, 0, false, choice);
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

/// Reads the weights of one rank; every method may run beside the others.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const ModelSetup& setup, const ProgressSink& progress);
  Weights load();

 private:
  void load_embeddings();
  void load_small(int layer);  // norms and router
  void load_attention(int layer);
  void load_experts(int layer);
  const CheckpointTensor& layer_tensor(int layer, const std::string& name) const;
  Buffer layer_floats(int layer, const std::string& name);
  void finished(const CheckpointTensor& tensor);

  const Checkpoint& checkpoint_;
  const ModelSetup& setup_;
  const ProgressSink& progress_;
  const Shard shard_;
  Weights weights_;
  std::mutex mutex_;  // guards done_
  LoadProgress done_;
};

Loader::Loader(const Checkpoint& checkpoint, const ModelSetup& setup, const ProgressSink& progress)
    : checkpoint_(checkpoint),
      setup_(setup),
      progress_(progress),
      shard_{setup.group.rank(), setup.group.size()} {
  for (const CheckpointTensor& t : checkpoint.tensors()) {
    done_.tensors_total += 1;
    done_.bytes_total += t.weight.bytes() + (t.scales.present() ? t.scales.bytes() : 0);
  }
}

Weights Loader::load() {
  const int layers = setup_.config.num_layers;
  weights_.layers.resize(layers);
  std::vector<std::function<void()>> tasks{[this] { load_embeddings(); }};
  for (int i = 0; i < layers; ++i) {
    tasks.emplace_back([this, i] { load_small(i); });
    tasks.emplace_back([this, i] { load_attention(i); });
    tasks.emplace_back([this, i] { load_experts(i); });
  }
  run_parallel(tasks, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  return std::move(weights_);
}

void Loader::finished(const CheckpointTensor& tensor) {
  checkpoint_.done_with(tensor);
  std::lock_guard lock(mutex_);
  done_.tensors_done += 1;
  done_.bytes_done += tensor.weight.bytes() + (tensor.scales.present() ? tensor.scales.bytes() : 0);
  if (progress_) progress_(done_);
}

void Loader::load_embeddings() {
  const CheckpointTensor& embeddings = checkpoint_.get("language_model/in_out_embed/embeddings");
  weights_.embeddings = upload_floats(setup_.backend, embeddings.weight);
  if (shard_.rank == 0) {
    const std::vector<float> values = widen(embeddings.weight);
    weights_.head = setup_.backend.pack_head({values.data(), setup_.config.vocab_size, setup_.config.emb_size});
  }
  finished(embeddings);
  const CheckpointTensor& norm = checkpoint_.get("language_model/rms_norm/scale");
  weights_.final_norm = upload_floats(setup_.backend, norm.weight);
  finished(norm);
}

const CheckpointTensor& Loader::layer_tensor(int layer, const std::string& name) const {
  return checkpoint_.get("transformer/decoder_layer_" + std::to_string(layer) + "/" + name);
}

Buffer Loader::layer_floats(int layer, const std::string& name) {
  const CheckpointTensor& tensor = layer_tensor(layer, name);
  Buffer buffer = upload_floats(setup_.backend, tensor.weight);
  finished(tensor);
  return buffer;
}

void Loader::load_small(int layer) {
  Layer& l = weights_.layers[layer];
  l.norm = layer_floats(layer, "rms_norm/scale");
  l.norm_1 = layer_floats(layer, "rms_norm_1/scale");
  l.norm_2 = layer_floats(layer, "rms_norm_2/scale");
  l.norm_3 = layer_floats(layer, "rms_norm_3/scale");
  l.router = layer_floats(layer, "router/w");
}

void Loader::load_attention(int layer) {
  Layer& l = weights_.layers[layer];
  const CheckpointTensor& query = layer_tensor(layer, "multi_head_attention/query/w");
  const CheckpointTensor& key = layer_tensor(layer, "multi_head_attention/key/w");
  const CheckpointTensor& value = layer_tensor(layer, "multi_head_attention/value/w");
  const CheckpointTensor& out = layer_tensor(layer, "multi_head_attention/linear/w");
  const QuantisedTensor q(query), k(key), v(value), o(out);
  const LinearSource inputs[] = {q.columns(shard_), k.columns(shard_), v.columns(shard_)};
  const LinearSource outputs[] = {o.rows(shard_)};
  l.query_key_value = setup_.backend.pack_linear(inputs, 1);
  l.attention_out = setup_.backend.pack_linear(outputs, setup_.config.scale_groups / shard_.ranks);
  for (const CheckpointTensor* t : {&query, &key, &value, &out}) finished(*t);
}

void Loader::load_experts(int layer) {
  const CheckpointTensor& gate = layer_tensor(layer, "moe/linear/w");
  const CheckpointTensor& up = layer_tensor(layer, "moe/linear_v/w");
  const CheckpointTensor& down = layer_tensor(layer, "moe/linear_1/w");
  const QuantisedTensor g(gate), u(up), d(down);
  std::vector<kernels::ExpertSource> sources;
  for (int e = 0; e < g.experts(); ++e) {
    sources.push_back({g.columns(shard_, e), u.columns(shard_, e), d.rows(shard_, e)});
  }
  weights_.layers[layer].experts =
      setup_.backend.pack_experts(sources, setup_.config.scale_groups / shard_.ranks);
  for (const CheckpointTensor* t : {&gate, &up, &down}) finished(*t);
}

}  // namespace

std::unique_ptr<Model> load_grok1(const Checkpoint& checkpoint, const ModelSetup& setup,
                                  const ProgressSink& progress) {
  Weights weights = Loader(checkpoint, setup, progress).load();
  return std::make_unique<Grok1>(std::move(weights), setup);
}

}  // namespace grokd

#include "engine/rank_model.h"

#include <algorithm>

#include "engine/memory_plan.h"

namespace grokd {

using kernels::MatrixView;

namespace {

int pages_for(int positions) { return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions; }

std::string mebibytes(std::size_t bytes) {
  return std::to_string((bytes + (std::size_t{1} << 20) - 1) >> 20) + " MiB";
}

RunnerLimits make_limits(const ModelConfig& config, const RunnerOptions& options, std::size_t page_bytes) {
  RunnerLimits limits;
  limits.vocab_size = config.vocab_size;
  limits.context = options.context > 0 ? std::min(options.context, config.sequence_len) : config.sequence_len;
  limits.max_batch_tokens = options.max_batch_tokens;
  limits.max_sequences = options.max_sequences;
  limits.experts = config.num_experts;
  limits.experts_per_token = config.num_selected_experts;
  limits.max_logit_rows =
      options.max_logit_rows > 0 ? options.max_logit_rows : std::max(options.max_sequences, 64);
  const int longest = pages_for(limits.context);
  limits.kv_pages = options.max_sequences * longest;
  if (options.kv_cache_bytes > 0) {
    limits.kv_pages = static_cast<int>(std::min<std::size_t>(options.kv_cache_bytes / page_bytes, 1 << 30));
    if (limits.kv_pages < longest) {
      throw ConfigError("the KV cache of " + mebibytes(options.kv_cache_bytes) +
                        " is too small for one request of " + std::to_string(limits.context) +
                        " positions, which needs " + mebibytes(page_bytes * longest));
    }
  }
  return limits;
}

/// The shards that take memory of this machine and are known to this rank: of threads, rank 0 knows all.
std::vector<Shard> shards_here(const RunnerOptions& options, const kernels::Communicator& group) {
  if (options.processes) return {{group.rank(), group.size()}};
  std::vector<Shard> shards;
  for (int rank = 0; rank < group.size() && group.rank() == 0; ++rank) shards.push_back({rank, group.size()});
  return shards;
}

/// kv_bytes: of each shard.
void check_memory(const ModelConfig& config, const RunnerOptions& options, std::size_t kv_bytes,
                  const std::vector<Shard>& shards) {
  const bool on_devices = options.backend == "cuda";
  kv_bytes *= shards.size();
  std::size_t need = kv_bytes;
  for (const Shard& shard : shards) need += weight_bytes(config, shard);
  const std::size_t have =
      on_devices ? kernels::cuda_free_bytes(options.cuda) * shards.size() : available_memory_bytes();
  if (have != 0 && need > have) {
    throw ConfigError("model " + config.name + " needs " + mebibytes(need) + " of memory (" +
                      mebibytes(kv_bytes) + " of it KV cache); " +
                      (on_devices ? "the CUDA devices have " : "this machine has ") + mebibytes(have) +
                      " free");
  }
}

}  // namespace

RankModel::RankModel(const ModelSource& source, const RunnerOptions& options, kernels::Communicator& group,
                     const ProgressSink& progress)
    : backend_(make_backend(options)), leads_(group.rank() == 0) {
  const ModelConfig& config = source.config;
  group.attach(*backend_, static_cast<std::size_t>(options.max_batch_tokens) * config.emb_size);
  const int kv_heads = config.num_kv_heads / group.size();
  const std::size_t layer_page = backend_->kv_page_bytes(kv_heads, config.key_size, options.kv_type);
  limits_ = make_limits(config, options, layer_page * config.num_layers * group.size());
  const std::size_t layer_bytes = layer_page * limits_.kv_pages;
  check_memory(config, options, layer_bytes * config.num_layers, shards_here(options, group));
  kv_memory_ = backend_->allocate(layer_bytes * config.num_layers);
  if (options.on_pin_refused) {
    if (const std::string refused = backend_->pin(kv_memory_); !refused.empty())
      options.on_pin_refused(refused);
  }
  if (source.ranges) kv_ranges_ = DeviceKvRanges(*backend_, *source.ranges, group.rank(), group.size());
  for (int i = 0; i < config.num_layers; ++i) {
    kv_.push_back({kv_memory_.data() + i * layer_bytes, layer_page, kv_heads, config.key_size,
                   options.kv_type, kv_ranges_.layer(i)});
  }
  if (leads_) logits_ = backend_->allocate(sizeof(float) * limits_.max_logit_rows * config.vocab_size);
  model_ = load_weights(source.files,
                        {config, *backend_, group, limits_.max_batch_tokens, limits_.max_sequences,
                         limits_.max_logit_rows, limits_.context},
                        progress);
}

void RankModel::run(const Batch& batch, std::span<kernels::SampledToken> sampled) {
  const MatrixView<float> logits(logits_.as<float>(), static_cast<int>(batch.logit_rows.size()),
                                 limits_.vocab_size);
  model_->forward(batch, kv_, logits, nullptr);
  if (leads_ && !batch.logit_rows.empty()) backend_->sample(logits, batch.sampling, sampled);
}

}  // namespace grokd

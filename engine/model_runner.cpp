#include "engine/model_runner.h"

#include <algorithm>
#include <vector>

#include "engine/memory_plan.h"
#include "engine/models/model.h"

namespace grokd {

using kernels::Backend;
using kernels::Buffer;
using kernels::KvLayer;
using kernels::MatrixView;

namespace {

std::unique_ptr<Backend> make_backend(const RunnerOptions& options) {
  if (options.backend == "reference") return kernels::make_reference_backend();
  if (options.backend != "cpu") {
    throw ConfigError("unknown backend \"" + options.backend + "\"; known: cpu, reference");
  }
  try {
    return kernels::make_cpu_backend(options.cpu);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
}

int pages_for(int positions) { return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions; }

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

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

void check_memory(const ModelConfig& config, std::size_t kv_bytes) {
  const std::size_t need = weight_bytes(config) + kv_bytes, have = available_memory_bytes();
  if (have != 0 && need > have) {
    throw ConfigError("model " + config.name + " needs " + mebibytes(need) + " of memory (" +
                      mebibytes(kv_bytes) + " of it KV cache); this machine has " + mebibytes(have) +
                      " free");
  }
}

class LocalModelRunner final : public ModelRunner {
 public:
  LocalModelRunner(const std::string& model_dir, const ModelConfig& config, const RunnerOptions& options,
                   const ProgressSink& progress)
      : backend_(make_backend(options)) {
    const std::size_t layer_page = backend_->kv_page_bytes(config.num_kv_heads, config.key_size);
    limits_ = make_limits(config, options, layer_page * config.num_layers);
    const std::size_t layer_bytes = layer_page * limits_.kv_pages;
    check_memory(config, layer_bytes * config.num_layers);
    kv_memory_ = backend_->allocate(layer_bytes * config.num_layers);
    for (int i = 0; i < config.num_layers; ++i) {
      kv_.push_back({kv_memory_.data() + i * layer_bytes, layer_page, config.num_kv_heads, config.key_size});
    }
    logits_ = backend_->allocate(sizeof(float) * limits_.max_logit_rows * config.vocab_size);
    const auto checkpoint = open_checkpoint(model_dir, config);
    const ModelSetup setup{config,
                           *backend_,
                           group_,
                           limits_.max_batch_tokens,
                           limits_.max_sequences,
                           limits_.max_logit_rows,
                           limits_.context};
    model_ = find_architecture(config.model_type)(*checkpoint, setup, progress);
  }

  const RunnerLimits& limits() const override { return limits_; }

  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    const MatrixView<float> logits(logits_.as<float>(), static_cast<int>(batch.logit_rows.size()),
                                   limits_.vocab_size);
    model_->forward(batch, kv_, logits, nullptr);
    if (!batch.logit_rows.empty()) backend_->sample(logits, batch.sampling, sampled);
  }

 private:
  std::unique_ptr<Backend> backend_;
  kernels::SingleRank group_;
  RunnerLimits limits_;
  Buffer kv_memory_, logits_;
  std::vector<KvLayer> kv_;
  std::unique_ptr<Model> model_;
};

}  // namespace

std::unique_ptr<ModelRunner> load_model(const std::string& model_dir, const ModelConfig& config,
                                        const RunnerOptions& options, const ProgressSink& progress) {
  try {
    return std::make_unique<LocalModelRunner>(model_dir, config, options, progress);
  } catch (const std::bad_alloc&) {
    throw ConfigError("model " + config.name + " does not fit into memory");
  }
}

}  // namespace grokd

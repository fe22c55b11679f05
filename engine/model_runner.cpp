#include "engine/model_runner.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "engine/kv_ranges.h"
#include "engine/memory_plan.h"
#include "engine/mesh.h"
#include "engine/model_files.h"
#include "kernels/thread_group.h"

namespace grokd {

using kernels::Backend;
using kernels::Buffer;
using kernels::KvLayer;
using kernels::MatrixView;

BackendChoice choose_backend(const std::string& asked) {
  if (asked == "cpu" || asked == "reference") return {asked, ""};
  if (asked != "cuda" && asked != "auto")
    throw ConfigError("unknown backend \"" + asked + "\"; known: cpu, cuda, auto, reference");
  const std::string missing = kernels::cuda_unavailable();
  if (missing.empty()) return {"cuda", ""};
  if (asked == "cuda") throw ConfigError("--backend cuda: " + missing);
  return {"cpu", missing};
}

std::unique_ptr<Backend> make_backend(const RunnerOptions& options) {
  const std::string backend = choose_backend(options.backend).backend;
  if (backend == "reference") return kernels::make_reference_backend();
  try {
    if (backend == "cuda") return kernels::make_cuda_backend(options.cuda);
    return kernels::make_cpu_backend(options.cpu);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
}

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

std::unique_ptr<kernels::RankGroup> make_group(const RunnerOptions& options) {
  if (options.backend != "cuda") return std::make_unique<kernels::ThreadGroup>(options.tensor_parallel);
  try {
    return kernels::make_cuda_group(options.cuda, options.tensor_parallel);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
}

/// kv_bytes: of one of `ranks` ranks in this process.
void check_memory(const ModelConfig& config, const RunnerOptions& options, std::size_t kv_bytes, int ranks) {
  const bool on_devices = options.backend == "cuda";
  kv_bytes *= static_cast<std::size_t>(ranks);
  const std::size_t need = weight_bytes(config, ranks) + kv_bytes;
  const std::size_t have = on_devices
                               ? kernels::cuda_free_bytes(options.cuda) * static_cast<std::size_t>(ranks)
                               : available_memory_bytes();
  if (have != 0 && need > have) {
    throw ConfigError("model " + config.name + " needs " + mebibytes(need) + " of memory (" +
                      mebibytes(kv_bytes) + " of it KV cache); " +
                      (on_devices ? "the CUDA devices have " : "this machine has ") + mebibytes(have) +
                      " free");
  }
}

/// One rank's device: its slice of the weights and of the cache.
class RankModel {
 public:
  /// `ranges`: of an int8 cache, else null.
  RankModel(const ModelFiles& files, const ModelConfig& config, const RunnerOptions& options,
            const KvRangeTable* ranges, kernels::Communicator& group, const ProgressSink& progress)
      : backend_(make_backend(options)), leads_(group.rank() == 0) {
    group.attach(*backend_, static_cast<std::size_t>(options.max_batch_tokens) * config.emb_size);
    const int kv_heads = config.num_kv_heads / group.size();
    const std::size_t layer_page = backend_->kv_page_bytes(kv_heads, config.key_size, options.kv_type);
    limits_ = make_limits(config, options, layer_page * config.num_layers * group.size());
    const std::size_t layer_bytes = layer_page * limits_.kv_pages;
    if (leads_) check_memory(config, options, layer_bytes * config.num_layers, group.size());
    kv_memory_ = backend_->allocate(layer_bytes * config.num_layers);
    if (options.on_pin_refused) {
      if (const std::string refused = backend_->pin(kv_memory_); !refused.empty())
        options.on_pin_refused(refused);
    }
    if (ranges) kv_ranges_ = DeviceKvRanges(*backend_, *ranges, group.rank(), group.size());
    for (int i = 0; i < config.num_layers; ++i) {
      kv_.push_back({kv_memory_.data() + i * layer_bytes, layer_page, kv_heads, config.key_size,
                     options.kv_type, kv_ranges_.layer(i)});
    }
    if (leads_) logits_ = backend_->allocate(sizeof(float) * limits_.max_logit_rows * config.vocab_size);
    model_ = load_weights(files,
                          {config, *backend_, group, limits_.max_batch_tokens, limits_.max_sequences,
                           limits_.max_logit_rows, limits_.context},
                          progress);
  }

  const RunnerLimits& limits() const { return limits_; }

  /// `sampled` is filled by rank 0.
  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) {
    const MatrixView<float> logits(logits_.as<float>(), static_cast<int>(batch.logit_rows.size()),
                                   limits_.vocab_size);
    model_->forward(batch, kv_, logits, nullptr);
    if (leads_ && !batch.logit_rows.empty()) backend_->sample(logits, batch.sampling, sampled);
  }

 private:
  std::unique_ptr<Backend> backend_;
  const bool leads_;
  RunnerLimits limits_;
  Buffer kv_memory_, logits_;
  DeviceKvRanges kv_ranges_;
  std::vector<KvLayer> kv_;
  std::unique_ptr<Model> model_;
};

class LocalModelRunner final : public ModelRunner {
 public:
  LocalModelRunner(const ModelFiles& files, const ModelConfig& config, const RunnerOptions& options,
                   const KvRangeTable* ranges, const ProgressSink& progress)
      : model_(files, config, options, ranges, group_, progress) {}

  const RunnerLimits& limits() const override { return model_.limits(); }
  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    model_.run(batch, sampled);
  }

 private:
  kernels::SingleRank group_;
  RankModel model_;
};

/// Every rank but the first runs in a thread of its own and waits for steps; the first is the caller.
class GroupModelRunner final : public ModelRunner {
 public:
  GroupModelRunner(const ModelFiles& files, const ModelConfig& config, const RunnerOptions& options,
                   const KvRangeTable* ranges, const ProgressSink& progress)
      : group_(make_group(options)), steps_(options.tensor_parallel) {
    RunnerOptions each = options_of_rank(options);
    for (int r = 0; r < options.tensor_parallel; ++r) {
      each.cuda.device = options.cuda.device + r;
      ranks_.push_back(std::make_unique<RankModel>(files, config, each, ranges, group_->rank(r),
                                                   r == 0 ? progress : ProgressSink{}));
    }
    for (int r = 1; r < options.tensor_parallel; ++r) threads_.emplace_back([this, r] { follow(r); });
  }

  ~GroupModelRunner() override {
    steps_.abandon();
    for (std::thread& thread : threads_) thread.join();
  }

  const RunnerLimits& limits() const override { return ranks_[0]->limits(); }

  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    batch_ = &batch;
    steps_.arrive_and_wait();
    run_rank(0, sampled);
    steps_.arrive_and_wait();  // nobody reads the batch any more
  }

 private:
  /// The threads are shared out over the ranks.
  static RunnerOptions options_of_rank(RunnerOptions options) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int threads = options.cpu.threads > 0 ? options.cpu.threads : cores;
    options.cpu.threads = std::max(1, threads / options.tensor_parallel);
    return options;
  }

  void run_rank(int rank, std::span<kernels::SampledToken> sampled) {
    try {
      ranks_[static_cast<std::size_t>(rank)]->run(*batch_, sampled);
    } catch (...) {
      group_->abandon();
      steps_.abandon();
      throw;
    }
  }

  void follow(int rank) {
    try {
      for (;;) {
        steps_.arrive_and_wait();
        run_rank(rank, {});
        steps_.arrive_and_wait();
      }
    } catch (const std::exception&) {
      // The group ends; rank 0 tells why.
    }
  }

  std::unique_ptr<kernels::RankGroup> group_;
  kernels::GroupBarrier steps_;  // a step begins, a step has ended
  std::vector<std::unique_ptr<RankModel>> ranks_;
  const Batch* batch_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace

namespace {

int rank_count(const std::string& model_dir, int packed, int asked) {
  if (packed == 0) return asked == 0 ? 1 : asked;
  if (asked != 0 && asked != packed)
    throw ConfigError(model_dir + ": is packed for tensor parallel " + std::to_string(packed) + ", not " +
                      std::to_string(asked));
  return packed;
}

}  // namespace

std::unique_ptr<ModelRunner> load_model(const std::string& model_dir, const ModelConfig& config,
                                        const RunnerOptions& asked, const ProgressSink& progress) {
  try {
    const auto files = open_model_files(model_dir, config);
    RunnerOptions options = asked;
    options.backend = choose_backend(asked.backend).backend;
    options.tensor_parallel = rank_count(model_dir, files->ranks(), asked.tensor_parallel);
    check_mesh(config, {1, options.tensor_parallel});
    std::optional<KvRangeTable> table;
    if (options.kv_type == kernels::KvType::int8) {
      table = load_kv_ranges(model_dir, config, files->fingerprint());
    }
    const KvRangeTable* ranges = table ? &*table : nullptr;
    if (options.tensor_parallel > 1) {
      return std::make_unique<GroupModelRunner>(*files, config, options, ranges, progress);
    }
    return std::make_unique<LocalModelRunner>(*files, config, options, ranges, progress);
  } catch (const std::bad_alloc&) {
    throw ConfigError("model " + config.name + " does not fit into memory");
  }
}

}  // namespace grokd

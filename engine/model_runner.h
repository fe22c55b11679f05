#pragma once
// Weights, cache and scratch of a model; runs one batch. Knows nothing of requests.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/batch.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/config.h"
#include "kernels/process_group.h"

namespace grokd {

/// What a runner was built for; a batch stays within it.
struct RunnerLimits {
  int vocab_size = 0;
  int context = 0;           // longest sequence, in positions
  int max_batch_tokens = 0;  // T of a step
  int max_sequences = 0;     // sequences in a step
  int max_logit_rows = 0;    // R of a step
  int kv_pages = 0;          // pages of kernels::kPagePositions positions, shared by all sequences
  int experts = 1, experts_per_token = 1;
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual const RunnerLimits& limits() const = 0;
  /// Feeds the batch, writes keys and values into its pages and samples `batch.sampling` into `sampled` [R].
  /// Throws when the device fails; the cache is then undefined.
  virtual void run(const Batch& batch, std::span<kernels::SampledToken> sampled) = 0;
  /// An idle engine calls `keep_alive` so often; none: never.
  virtual std::optional<std::chrono::milliseconds> keep_alive_interval() const { return std::nullopt; }
  /// Throws when other ranks are lost.
  virtual void keep_alive() {}
};

struct RunnerOptions {
  std::string backend = "cpu";  // "cpu", "cuda", "auto" or "reference"
  kernels::CpuOptions cpu;
  kernels::CudaOptions cuda;  // the first rank's device; the others follow
  // Ranks, each with its slice of the weights and its share of the threads; 0 = as the files are packed,
  // else 1.
  int tensor_parallel = 0;
  // The ranks are processes, and this is one of them; null: ranks are threads.
  std::shared_ptr<kernels::ProcessGroup> processes;
  int context = 0;  // 0 = the model's own; otherwise at most that
  int max_sequences = 16;
  int max_batch_tokens = 512;
  int max_logit_rows = 0;          // 0 = max(max_sequences, 64)
  std::size_t kv_cache_bytes = 0;  // 0 = room for max_sequences * context
  kernels::KvType kv_type = kernels::KvType::int16;
  /// If set, the KV cache is pinned in memory, and what the system refuses of that is told.
  std::function<void(const std::string&)> on_pin_refused;
};

struct BackendChoice {
  std::string backend;  // "cpu", "cuda" or "reference"
  std::string missing;  // why "auto" did not become "cuda"
};
/// What to run for a name, "auto" included. Throws ConfigError for one that is unknown or cannot run here.
BackendChoice choose_backend(const std::string& asked);

/// Throws ConfigError for one that is unknown or cannot run here.
std::unique_ptr<kernels::Backend> make_backend(const RunnerOptions& options);

/// Loads the weights and takes all memory. Throws ConfigError (bad files, or memory that does not fit, with
/// the number needed).
std::unique_ptr<ModelRunner> load_model(const std::string& model_dir, const ModelConfig& config,
                                        const RunnerOptions& options, const ProgressSink& progress);

/// As a process of options.processes that is not its first: loads its slice and runs rank 0's steps until
/// that one ends. Throws ConfigError as load_model does, kernels::GroupBroken when rank 0 is lost.
void follow_model(const std::string& model_dir, const ModelConfig& config, const RunnerOptions& options);

}  // namespace grokd

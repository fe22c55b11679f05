#pragma once
// One rank's device: its slice of the weights and of the cache, and its part of a step.

#include <memory>
#include <span>
#include <vector>

#include "engine/kv_ranges.h"
#include "engine/model_files.h"
#include "engine/model_runner.h"

namespace grokd {

/// What all ranks of a model are loaded from.
struct ModelSource {
  const ModelFiles& files;
  const ModelConfig& config;
  const KvRangeTable* ranges;  // of an int8 cache, else null
};

class RankModel {
 public:
  /// Loads the slice of `group.rank()` and takes all memory. Throws ConfigError.
  RankModel(const ModelSource& source, const RunnerOptions& options, kernels::Communicator& group,
            const ProgressSink& progress);

  const RunnerLimits& limits() const { return limits_; }
  /// `sampled` is filled by rank 0.
  void run(const Batch& batch, std::span<kernels::SampledToken> sampled);

 private:
  const std::unique_ptr<kernels::Backend> backend_;
  const bool leads_;
  RunnerLimits limits_;
  kernels::Buffer kv_memory_, logits_;
  DeviceKvRanges kv_ranges_;
  std::vector<kernels::KvLayer> kv_;
  std::unique_ptr<Model> model_;
};

}  // namespace grokd

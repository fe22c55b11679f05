#pragma once
// A model with the cache of one sequence, fed without an engine: for calibration and reports on quality.

#include <memory>
#include <span>

#include "engine/kv_ranges.h"
#include "engine/model_runner.h"
#include "engine/models/model.h"

namespace grokd {

class TextModel {
 public:
  /// Steps have at most `options.max_batch_tokens` rows. Throws ConfigError; also for files packed for
  /// several ranks.
  TextModel(const std::string& model_dir, const ModelConfig& config, const RunnerOptions& options,
            const ProgressSink& progress);

  int step_tokens() const { return step_tokens_; }
  /// One step: `ids` at positions from `position` on. `scores` is empty, or as long as `ids`: each row's
  /// sampled token, forced to be the one of `next`.
  void feed(std::span<const TokenId> ids, int position, std::span<const TokenId> next,
            std::span<kernels::SampledToken> scores, ForwardObserver* observer = nullptr);

  kernels::Backend& backend() { return *backend_; }
  const kernels::KvLayer& kv(int layer) const { return kv_[static_cast<std::size_t>(layer)]; }

 private:
  const ModelConfig config_;
  std::unique_ptr<kernels::Backend> backend_;
  kernels::SingleRank group_;
  const int step_tokens_;
  std::vector<std::int32_t> pages_;  // 0, 1, 2, ...
  std::vector<kernels::Buffer> memory_;
  DeviceKvRanges ranges_;
  std::vector<kernels::KvLayer> kv_;
  kernels::Buffer logits_;
  std::unique_ptr<Model> model_;
};

}  // namespace grokd

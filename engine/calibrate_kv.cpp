#include "engine/calibrate_kv.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/kv_pages.h"
#include "engine/model_files.h"

namespace grokd {
namespace {

using kernels::kPagePositions;
using kernels::KvLayer;

/// NaN is passed over.
void widen(float& range, float value) {
  if (std::abs(value) > range) range = std::abs(value);
}

/// A model with an int16 cache for one sequence.
class Calibration {
 public:
  Calibration(const ModelFiles& files, const ModelConfig& config, const RunnerOptions& options,
              const ProgressSink& progress)
      : config_(config),
        backend_(make_backend(options)),
        step_tokens_(options.max_batch_tokens),
        pages_(static_cast<std::size_t>(KvPages::needed(config.sequence_len))),
        table_(config) {
    std::iota(pages_.begin(), pages_.end(), 0);
    const std::size_t page_bytes = backend_->kv_page_bytes(config.num_kv_heads, config.key_size);
    for (int layer = 0; layer < config.num_layers; ++layer) {
      memory_.push_back(backend_->allocate(page_bytes * pages_.size()));
      kv_.push_back({memory_.back().data(), page_bytes, config.num_kv_heads, config.key_size});
    }
    model_ = load_weights(
        files, {config, *backend_, group_, options.max_batch_tokens, 1, 1, config.sequence_len}, progress);
  }

  void feed(std::span<const TokenId> window) {
    for (int at = 0; at < static_cast<int>(window.size()); at += step_tokens_) {
      const int rows = std::min(step_tokens_, static_cast<int>(window.size()) - at);
      Batch batch;
      batch.ids.assign(window.begin() + at, window.begin() + at + rows);
      batch.sequences.push_back({0, rows, at, pages_});
      model_->forward(batch, kv_, {}, nullptr);
    }
    for (int layer = 0; layer < config_.num_layers; ++layer) {
      for (int at = 0; at < static_cast<int>(window.size()); at += kPagePositions) {
        read(layer, at / kPagePositions, std::min(kPagePositions, static_cast<int>(window.size()) - at));
      }
    }
  }

  /// A channel that was always 0 gets range 1.
  KvRangeTable table() {
    for (auto* ranges : {&table_.keys, &table_.values})
      std::replace(ranges->begin(), ranges->end(), 0.0f, 1.0f);
    return table_;
  }

 private:
  void read(int layer, int page, int count) {
    const auto heads = static_cast<std::size_t>(config_.num_kv_heads);
    const auto entries = static_cast<std::size_t>(count) * heads;
    const auto size = static_cast<std::size_t>(config_.key_size);
    std::vector<std::int16_t> keys(entries * size), values(entries * size);
    std::vector<float> key_scales(entries), value_scales(entries);
    backend_->read_kv(kv_[static_cast<std::size_t>(layer)], page, count, keys.data(), key_scales.data(),
                      values.data(), value_scales.data());
    for (std::size_t i = 0; i < entries * size; ++i) {
      const std::size_t entry = i / size;
      const std::size_t channel = (static_cast<std::size_t>(layer) * heads + entry % heads) * size + i % size;
      widen(table_.keys[channel], static_cast<float>(keys[i]) * key_scales[entry]);
      widen(table_.values[channel], static_cast<float>(values[i]) * value_scales[entry]);
    }
  }

  const ModelConfig& config_;
  std::unique_ptr<kernels::Backend> backend_;
  kernels::SingleRank group_;
  const int step_tokens_;
  std::vector<std::int32_t> pages_;
  std::vector<kernels::Buffer> memory_;
  std::vector<KvLayer> kv_;
  std::unique_ptr<Model> model_;
  KvRangeTable table_;
};

}  // namespace

KvRangeTable calibrate_kv(const std::string& model_dir, const ModelConfig& config,
                          const RunnerOptions& options, std::span<const TokenId> ids,
                          const ProgressSink& progress) {
  const auto files = open_model_files(model_dir, config);
  if (files->ranks() > 1)
    throw ConfigError(model_dir + ": is packed for several ranks; calibrate from the checkpoint");
  Calibration calibration(*files, config, options, progress);
  while (!ids.empty()) {
    const auto window = ids.first(std::min(ids.size(), static_cast<std::size_t>(config.sequence_len)));
    calibration.feed(window);
    ids = ids.subspan(window.size());
  }
  return calibration.table();
}

}  // namespace grokd

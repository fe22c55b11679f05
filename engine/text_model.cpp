#include "engine/text_model.h"

#include <numeric>

#include "engine/kv_pages.h"
#include "engine/model_files.h"

namespace grokd {

TextModel::TextModel(const std::string& model_dir, const ModelConfig& config, const RunnerOptions& options,
                     const ProgressSink& progress)
    : config_(config),
      backend_(make_backend(options)),
      step_tokens_(options.max_batch_tokens),
      pages_(static_cast<std::size_t>(KvPages::needed(config.sequence_len))) {
  const auto files = open_model_files(model_dir, config);
  if (files->ranks() > 1)
    throw ConfigError(model_dir + ": is packed for several ranks, which cannot run here");
  std::iota(pages_.begin(), pages_.end(), 0);
  if (options.kv_type == kernels::KvType::int8) {
    ranges_ = DeviceKvRanges(*backend_, load_kv_ranges(model_dir, config, files->fingerprint()), 0, 1);
  }
  const std::size_t page = backend_->kv_page_bytes(config.num_kv_heads, config.key_size, options.kv_type);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    memory_.push_back(backend_->allocate(page * pages_.size()));
    kv_.push_back({memory_.back().data(), page, config.num_kv_heads, config.key_size, options.kv_type,
                   ranges_.layer(layer)});
  }
  const auto logits = static_cast<std::size_t>(step_tokens_) * static_cast<std::size_t>(config.vocab_size);
  logits_ = backend_->allocate(sizeof(float) * logits);
  model_ = load_weights(
      *files, {config_, *backend_, group_, step_tokens_, 1, step_tokens_, config.sequence_len}, progress);
}

void TextModel::feed(std::span<const TokenId> ids, int position, std::span<const TokenId> next,
                     std::span<kernels::SampledToken> scores, ForwardObserver* observer) {
  Batch batch;
  batch.ids.assign(ids.begin(), ids.end());
  batch.sequences.push_back({0, batch.tokens(), position, pages_});
  for (std::size_t i = 0; i < scores.size(); ++i) {
    batch.logit_rows.push_back(static_cast<std::int32_t>(i));
    batch.sampling.emplace_back().forced = next[i];
  }
  const kernels::MatrixView<float> logits(logits_.as<float>(), static_cast<int>(scores.size()),
                                          config_.vocab_size);
  model_->forward(batch, kv_, logits, observer);
  if (!scores.empty()) backend_->sample(logits, batch.sampling, scores);
}

}  // namespace grokd

#include "engine/calibrate_kv.h"

#include <algorithm>
#include <cmath>

#include "engine/text_model.h"

namespace grokd {
namespace {

using kernels::kPagePositions;

/// NaN is passed over.
void widen(float& range, float value) {
  if (std::abs(value) > range) range = std::abs(value);
}

/// Takes in `count` positions of one page of one layer.
void measure(TextModel& model, int layer, int page, int count, KvRangeTable& table) {
  const auto heads = static_cast<std::size_t>(table.kv_heads),
             size = static_cast<std::size_t>(table.head_size);
  const std::size_t entries = static_cast<std::size_t>(count) * heads;
  std::vector<std::int16_t> keys(entries * size), values(entries * size);
  std::vector<float> key_scales(entries), value_scales(entries);
  model.backend().read_kv(model.kv(layer), page, count, keys.data(), key_scales.data(), values.data(),
                          value_scales.data());
  for (std::size_t i = 0; i < entries * size; ++i) {
    const std::size_t entry = i / size;
    const std::size_t channel = (static_cast<std::size_t>(layer) * heads + entry % heads) * size + i % size;
    widen(table.keys[channel], static_cast<float>(keys[i]) * key_scales[entry]);
    widen(table.values[channel], static_cast<float>(values[i]) * value_scales[entry]);
  }
}

void measure_window(TextModel& model, std::span<const TokenId> window, KvRangeTable& table) {
  const int length = static_cast<int>(window.size());
  for (int at = 0; at < length; at += model.step_tokens()) {
    const int rows = std::min(model.step_tokens(), length - at);
    model.feed(window.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows)), at, {}, {});
  }
  for (int layer = 0; layer < table.layers; ++layer) {
    for (int at = 0; at < length; at += kPagePositions) {
      measure(model, layer, at / kPagePositions, std::min(kPagePositions, length - at), table);
    }
  }
}

}  // namespace

KvRangeTable calibrate_kv(const std::string& model_dir, const ModelConfig& config,
                          const RunnerOptions& options, std::span<const TokenId> ids,
                          const ProgressSink& progress) {
  RunnerOptions plain = options;
  plain.kv_type = kernels::KvType::int16;
  TextModel model(model_dir, config, plain, progress);
  KvRangeTable table(config);
  while (!ids.empty()) {
    const auto window = ids.first(std::min(ids.size(), static_cast<std::size_t>(config.sequence_len)));
    measure_window(model, window, table);
    ids = ids.subspan(window.size());
  }
  for (auto* ranges : {&table.keys, &table.values}) std::replace(ranges->begin(), ranges->end(), 0.0f, 1.0f);
  return table;
}

}  // namespace grokd

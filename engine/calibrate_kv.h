#pragma once
// Measures the ranges that an int8 KV cache divides by.

#include <span>

#include "engine/kv_ranges.h"
#include "engine/model_runner.h"

namespace grokd {

/// Feeds `ids` in windows of at most the model's context, each from position 0, through the model with its
/// int16 cache, and takes the largest magnitude of every channel, 1 for one that is always 0. Throws
/// ConfigError.
KvRangeTable calibrate_kv(const std::string& model_dir, const ModelConfig& config,
                          const RunnerOptions& options, std::span<const TokenId> ids,
                          const ProgressSink& progress);

}  // namespace grokd

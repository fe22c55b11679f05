#pragma once
// Models of random weights, as large as wanted: for tests, benches and trying out hardware.

#include <cstdint>
#include <string>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

/// Bytes of all arrays of such a model: about the size of its checkpoint.
std::uint64_t synthetic_model_bytes(const ModelConfig& config);

/// Writes config.json and a checkpoint in xAI's form into `model_dir` (made if missing). Scales are such that
/// activations keep their size through the layers and logits spread by a few units. The same config and seed
/// give the same bytes. Throws ConfigError when there is a checkpoint already or too little space.
void write_synthetic_model(const ModelConfig& config, const std::string& model_dir, std::uint64_t seed,
                           const ProgressSink& progress);

}  // namespace grokd

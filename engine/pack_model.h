#pragma once
// Turns a checkpoint into packed files, one a rank, in the CPU backend's layout.

#include <string>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

struct PackOptions {
  int tensor_parallel = 1;
  int threads = 0;  // 0 = all cores; each holds one block at a time
};

/// Writes OUT/config.json, the tokenizer and OUT/packed/rank-R-of-N.packed. Interrupted, the same call goes
/// on where it was. Throws ConfigError: a mesh that does not divide the model, files that cannot be written,
/// a folder that holds another model.
void pack_model(const std::string& model_dir, const ModelConfig& config, const std::string& out,
                const PackOptions& options, const ProgressSink& progress);

}  // namespace grokd

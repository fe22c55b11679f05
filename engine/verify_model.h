#pragma once
// Reads a model's files whole and says everything that is wrong with them.

#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

struct VerifyOptions {
  bool structure_only = false;  // names, shapes, types and lengths; no contents
  int threads = 0;              // 0 = all cores
};

struct VerifyReport {
  std::string form;  // "packed for 2 ranks", "checkpoint of 770 tensors"
  std::size_t bytes = 0;
  std::vector<std::string> problems;  // one line each, naming file and tensor or block
};

/// Packed: every checksum. xAI's form: every file's pickle against the configuration, and no value of an f32
/// array or scale that is not finite.
VerifyReport verify_model(const std::string& model_dir, const ModelConfig& config,
                          const VerifyOptions& options, const ProgressSink& progress);

}  // namespace grokd

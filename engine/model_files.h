#pragma once
// What a model's folder holds: a checkpoint that is packed as it is read, or files packed for a mesh.

#include <memory>
#include <span>
#include <string>

#include "engine/models/model.h"

namespace grokd {

class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  /// The only number of ranks that can load it; 0 = any.
  virtual int ranks() const = 0;
  /// Names the weights, packed or not: weights_fingerprint.h.
  virtual std::string fingerprint() const = 0;
  /// One rank's weights. The files and `backend` outlive it. Throws ConfigError for files of another rank,
  /// layout or configuration.
  virtual std::unique_ptr<BlockSource> open(kernels::Backend& backend, std::span<const WeightBlock> blocks,
                                            Shard shard, const ProgressSink& progress) const = 0;
};

/// Throws ConfigError naming what is missing or wrong.
std::unique_ptr<ModelFiles> open_model_files(const std::string& model_dir, const ModelConfig& config);

/// All weights of the setup's rank.
std::unique_ptr<Model> load_weights(const ModelFiles& files, const ModelSetup& setup,
                                    const ProgressSink& progress);

}  // namespace grokd

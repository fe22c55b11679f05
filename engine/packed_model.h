#pragma once
// The packed files of all ranks of a model.

#include <vector>

#include "engine/checkpoint/packed_file.h"
#include "engine/model_files.h"

namespace grokd {

bool is_packed(const std::string& folder);

class PackedModel final : public ModelFiles {
 public:
  /// Opens every rank's file in `folder` and checks that they belong together and to `config`. Throws
  /// ConfigError naming the file.
  PackedModel(const std::string& folder, const ModelConfig& config);

  int ranks() const override { return static_cast<int>(files_.size()); }
  std::string fingerprint() const override { return files_[0]->table().identity.weights; }
  std::unique_ptr<BlockSource> open(kernels::Backend& backend, std::span<const WeightBlock> blocks,
                                    Shard shard, const ProgressSink& progress) const override;
  const PackedFile& file(int rank) const { return *files_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<PackedFile>> files_;
};

}  // namespace grokd

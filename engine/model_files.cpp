#include "engine/model_files.h"

#include <filesystem>

#include "engine/checkpoint/weights_fingerprint.h"
#include "engine/packed_model.h"

namespace grokd {
namespace {

class CheckpointFiles final : public ModelFiles {
 public:
  explicit CheckpointFiles(std::unique_ptr<Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}

  int ranks() const override { return 0; }
  std::string fingerprint() const override { return weights_fingerprint(*checkpoint_); }
  std::unique_ptr<BlockSource> open(kernels::Backend& backend, std::span<const WeightBlock> blocks,
                                    Shard shard, const ProgressSink& progress) const override {
    return checkpoint_blocks(*checkpoint_, backend, blocks, shard, progress);
  }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
};

}  // namespace

std::unique_ptr<ModelFiles> open_model_files(const std::string& model_dir, const ModelConfig& config) {
  const std::string folder = (std::filesystem::path(model_dir) / config.checkpoint).string();
  if (is_packed(folder)) return std::make_unique<PackedModel>(folder, config);
  return std::make_unique<CheckpointFiles>(open_checkpoint(model_dir, config));
}

std::unique_ptr<Model> load_weights(const ModelFiles& files, const ModelSetup& setup,
                                    const ProgressSink& progress) {
  const Architecture& architecture = find_architecture(setup.config.model_type);
  const Shard shard{setup.group.rank(), setup.group.size()};
  const auto source = files.open(setup.backend, architecture.blocks(setup.config, shard), shard, progress);
  return architecture.load(*source, setup);
}

}  // namespace grokd

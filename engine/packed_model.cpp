#include "engine/packed_model.h"

#include <filesystem>
#include <mutex>

namespace grokd {
namespace {

/// Reads into the memory of the backend, which lies on huge pages where the system has them: faster to
/// compute from than a mapped file, and every byte is checked on its way.
class PackedBlocks final : public BlockSource {
 public:
  PackedBlocks(const PackedFile& file, kernels::Backend& backend, std::span<const WeightBlock> blocks,
               ProgressSink progress)
      : file_(file), backend_(backend), progress_(std::move(progress)) {
    done_.tensors_total = blocks.size();
    for (const WeightBlock& block : blocks) done_.bytes_total += block_bytes(block);
  }

  kernels::Buffer take(const WeightBlock& block) override {
    const PackedEntry& entry = file_.entry(block.name, block_bytes(block));
    kernels::Buffer buffer = backend_.allocate(entry.bytes);
    file_.read(entry, [&](std::uint64_t offset, std::span<const std::byte> piece) {
      backend_.upload(buffer.data() + offset, piece.data(), piece.size());
    });
    const std::lock_guard lock(mutex_);
    done_.tensors_done += 1;
    done_.bytes_done += entry.bytes;
    if (progress_) progress_(done_);
    return buffer;
  }

 private:
  const PackedFile& file_;
  kernels::Backend& backend_;
  const ProgressSink progress_;
  std::mutex mutex_;  // guards done_
  LoadProgress done_;
};

void check(const PackedFile& file, const PackedIdentity& wanted) {
  const std::string other = difference(file.table().identity, wanted);
  if (!other.empty()) throw ConfigError(file.path() + ": " + other);
}

}  // namespace

bool is_packed(const std::string& folder) { return packed_ranks(folder) > 0; }

PackedModel::PackedModel(const std::string& folder, const ModelConfig& config) {
  const int ranks = packed_ranks(folder);
  std::string weights;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto path = std::filesystem::path(folder) / packed_file_name({rank, ranks});
    files_.push_back(std::make_unique<PackedFile>(path.string()));
    check(*files_.back(), packed_identity(config, "", weights, {rank, ranks}));
    weights = fingerprint();
  }
}

std::unique_ptr<BlockSource> PackedModel::open(kernels::Backend& backend, std::span<const WeightBlock> blocks,
                                               Shard shard, const ProgressSink& progress) const {
  const PackedFile& packed = file(shard.rank % ranks());
  PackedIdentity wanted = packed.table().identity;
  wanted.layout = backend.weight_layout();
  wanted.shard = shard;
  check(packed, wanted);
  return std::make_unique<PackedBlocks>(packed, backend, blocks, progress);
}

}  // namespace grokd

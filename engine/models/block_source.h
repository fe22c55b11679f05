#pragma once
// Where a model takes its blocks of weights from: a checkpoint that is packed as it is read, or packed files.

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "engine/checkpoint/checkpoint.h"
#include "engine/models/weight_block.h"
#include "kernels/backend.h"

namespace grokd {

class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// The block in the backend's layout; from any thread, each block once. Throws ConfigError naming the file.
  virtual kernels::Buffer take(const WeightBlock& block) = 0;
};

/// One rank's part of the block's tensors, packed.
kernels::Buffer make_block(const Checkpoint& checkpoint, kernels::Backend& backend, const WeightBlock& block,
                           Shard shard);

/// Lets go of what the blocks have read: the part of one expert at once, a tensor when no block needs it any
/// more, which is reported as progress.
class BlockProgress {
 public:
  BlockProgress(const Checkpoint& checkpoint, std::span<const WeightBlock> blocks, ProgressSink sink);
  /// From any thread.
  void done_with(const WeightBlock& block);

 private:
  const Checkpoint& checkpoint_;
  const ProgressSink sink_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, int> uses_;
  LoadProgress done_;
};

/// `checkpoint` and `backend` outlive it.
std::unique_ptr<BlockSource> checkpoint_blocks(const Checkpoint& checkpoint, kernels::Backend& backend,
                                               std::span<const WeightBlock> blocks, Shard shard,
                                               ProgressSink progress);

}  // namespace grokd

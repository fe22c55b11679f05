#include "engine/models/block_source.h"

#include <vector>

#include "engine/models/weights.h"

namespace grokd {

using kernels::Buffer;
using kernels::LinearSource;

namespace {

std::size_t tensor_bytes(const CheckpointTensor& tensor) {
  return tensor.weight.bytes() + tensor.scales.bytes();
}

/// The part of a tensor that belongs to one expert; nothing when there are none.
std::span<const std::byte> expert_part(const CheckpointTensor& tensor, int expert) {
  const std::span<const std::byte> all(tensor.weight.data, tensor.weight.bytes());
  if (tensor.weight.shape.size() < 3) return {};
  const std::size_t bytes = all.size() / static_cast<std::size_t>(tensor.weight.shape[0]);
  return all.subspan(bytes * static_cast<std::size_t>(expert), bytes);
}

void will_read(const Checkpoint& checkpoint, const CheckpointTensor& tensor, const LinearSource& source) {
  const auto& w = source.weight;
  checkpoint.will_read(tensor, {reinterpret_cast<const std::byte*>(w.data), static_cast<std::size_t>(w.cols),
                                static_cast<std::size_t>(w.stride), static_cast<std::size_t>(w.rows)});
}

/// Gives the scales of several tensors a home while views of them are packed.
class Sources {
 public:
  Sources(const Checkpoint& checkpoint, const WeightBlock& block, Shard shard)
      : checkpoint_(checkpoint), block_(block), shard_(shard) {
    tensors_.reserve(block.tensors.size());
  }
  LinearSource columns(std::size_t i) { return announced(i, add(i).columns(shard_, block_.expert)); }
  LinearSource rows(std::size_t i) { return announced(i, add(i).rows(shard_, block_.expert)); }

 private:
  const QuantisedTensor& add(std::size_t i) {
    return tensors_.emplace_back(checkpoint_.get(block_.tensors[i]));
  }
  LinearSource announced(std::size_t i, const LinearSource& source) {
    will_read(checkpoint_, checkpoint_.get(block_.tensors[i]), source);
    return source;
  }

  const Checkpoint& checkpoint_;
  const WeightBlock& block_;
  const Shard shard_;
  std::vector<QuantisedTensor> tensors_;
};

Buffer make_expert(Sources& sources, kernels::Backend& backend, int groups) {
  const kernels::ExpertSource expert{sources.columns(0), sources.columns(1), sources.rows(2)};
  return std::move(backend.pack_experts({&expert, 1}, groups).data.front());
}

Buffer make_linear(Sources& sources, kernels::Backend& backend, const WeightBlock& block) {
  std::vector<LinearSource> parts;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    parts.push_back(block.kind == BlockKind::linear_in ? sources.rows(i) : sources.columns(i));
  }
  return std::move(backend.pack_linear(parts, block.groups).data);
}

class CheckpointBlocks final : public BlockSource {
 public:
  CheckpointBlocks(const Checkpoint& checkpoint, kernels::Backend& backend,
                   std::span<const WeightBlock> blocks, Shard shard, ProgressSink progress)
      : checkpoint_(checkpoint),
        backend_(backend),
        shard_(shard),
        progress_(checkpoint, blocks, std::move(progress)) {}

  Buffer take(const WeightBlock& block) override {
    Buffer buffer = make_block(checkpoint_, backend_, block, shard_);
    progress_.done_with(block);
    return buffer;
  }

 private:
  const Checkpoint& checkpoint_;
  kernels::Backend& backend_;
  const Shard shard_;
  BlockProgress progress_;
};

}  // namespace

Buffer make_block(const Checkpoint& checkpoint, kernels::Backend& backend, const WeightBlock& block,
                  Shard shard) {
  Sources sources(checkpoint, block, shard);
  const CheckpointTensor& first = checkpoint.get(block.tensors.front());
  switch (block.kind) {
    case BlockKind::floats:
      checkpoint.will_read(first, {first.weight.data, first.weight.bytes(), 0, 1});
      return upload_floats(backend, first.weight);
    case BlockKind::head: {
      checkpoint.will_read(first, {first.weight.data, first.weight.bytes(), 0, 1});
      const std::vector<float> values = widen(first.weight);
      return std::move(backend.pack_head({values.data(), block.out, block.in}).data);
    }
    case BlockKind::linear_out:
    case BlockKind::linear_in:
      return make_linear(sources, backend, block);
    case BlockKind::expert:
      return make_expert(sources, backend, block.groups);
  }
  return {};
}

BlockProgress::BlockProgress(const Checkpoint& checkpoint, std::span<const WeightBlock> blocks,
                             ProgressSink sink)
    : checkpoint_(checkpoint), sink_(std::move(sink)) {
  for (const WeightBlock& block : blocks) {
    for (const std::string& path : block.tensors) ++uses_[path];
  }
  for (const auto& [path, uses] : uses_) {
    done_.tensors_total += 1;
    done_.bytes_total += tensor_bytes(checkpoint.get(path));
  }
}

void BlockProgress::done_with(const WeightBlock& block) {
  for (const std::string& path : block.tensors) {
    const CheckpointTensor& tensor = checkpoint_.get(path);
    const std::lock_guard lock(mutex_);
    if (--uses_[path] > 0) {
      checkpoint_.done_with(tensor, expert_part(tensor, block.expert));
      continue;
    }
    checkpoint_.done_with(tensor);
    done_.tensors_done += 1;
    done_.bytes_done += tensor_bytes(tensor);
    if (sink_) sink_(done_);
  }
}

std::unique_ptr<BlockSource> checkpoint_blocks(const Checkpoint& checkpoint, kernels::Backend& backend,
                                               std::span<const WeightBlock> blocks, Shard shard,
                                               ProgressSink progress) {
  return std::make_unique<CheckpointBlocks>(checkpoint, backend, blocks, shard, std::move(progress));
}

}  // namespace grokd

#include "engine/models/block_source.h"

#include <algorithm>
#include <vector>

#include "engine/models/float_matrix.h"
#include "engine/models/weights.h"

namespace grokd {

using kernels::Buffer;
using kernels::LinearSource;

namespace {

std::span<const std::byte> bytes_of(const TensorView& array) { return {array.data, array.bytes()}; }

/// The parts of a tensor that belong to one expert; nothing when there are none.
std::vector<std::span<const std::byte>> expert_parts(const CheckpointTensor& tensor, int expert) {
  std::vector<std::span<const std::byte>> parts;
  if (tensor.matrices.size() > 1) {
    for (const TensorView& piece : tensor.arrays(expert)) parts.push_back(bytes_of(piece));
  } else if (tensor.weight.shape.size() == 3) {
    const std::size_t bytes = tensor.weight.bytes() / static_cast<std::size_t>(tensor.weight.shape[0]);
    parts.push_back(bytes_of(tensor.weight).subspan(bytes * static_cast<std::size_t>(expert), bytes));
  }
  return parts;
}

void will_read_all(const Checkpoint& checkpoint, const CheckpointTensor& tensor, int expert) {
  for (const TensorView& array : tensor.arrays(expert))
    checkpoint.will_read(tensor, {array.data, array.bytes(), 0, 1});
}

/// Gives what views of matrices point to a home while they are packed.
class Sources {
 public:
  Sources(const Checkpoint& checkpoint, const WeightBlock& block, Shard shard)
      : checkpoint_(checkpoint), block_(block), shard_(shard) {
    quantised_.reserve(block.tensors.size());
    packed_.reserve(block.tensors.size());
  }
  LinearSource columns(std::size_t i) {
    if (tensor(i).matrices.empty()) return announced(i, add(i).columns(shard_, std::max(0, block_.expert)));
    will_read_all(checkpoint_, tensor(i), block_.expert);
    return packed_.emplace_back(pack_outputs(matrix(i), shard_)).source();
  }
  LinearSource rows(std::size_t i) {
    if (tensor(i).matrices.empty()) return announced(i, add(i).rows(shard_, std::max(0, block_.expert)));
    will_read_all(checkpoint_, tensor(i), block_.expert);
    return packed_.emplace_back(pack_inputs(matrix(i), shard_, block_.groups)).source();
  }

 private:
  const CheckpointTensor& tensor(std::size_t i) const { return checkpoint_.get(block_.tensors[i]); }
  const FloatMatrix& matrix(std::size_t i) const {
    const auto& matrices = tensor(i).matrices;
    return matrices[matrices.size() > 1 ? static_cast<std::size_t>(block_.expert) : 0];
  }
  const QuantisedTensor& add(std::size_t i) { return quantised_.emplace_back(tensor(i)); }
  LinearSource announced(std::size_t i, const LinearSource& source) {
    const auto& w = source.weight;
    checkpoint_.will_read(tensor(i),
                          {reinterpret_cast<const std::byte*>(w.data), static_cast<std::size_t>(w.cols),
                           static_cast<std::size_t>(w.stride), static_cast<std::size_t>(w.rows)});
    return source;
  }

  const Checkpoint& checkpoint_;
  const WeightBlock& block_;
  const Shard shard_;
  std::vector<QuantisedTensor> quantised_;
  std::vector<PackedFloats> packed_;
};

/// `factor`: of the scales of the second matrix.
Buffer make_expert(Sources& sources, kernels::Backend& backend, int groups, float factor) {
  kernels::ExpertSource expert{sources.columns(0), sources.columns(1), sources.rows(2)};
  std::vector<float> scales;
  if (factor != 1) {
    const auto given = expert.down.scales;
    for (std::ptrdiff_t g = 0; g < given.rows; ++g) {
      for (std::ptrdiff_t n = 0; n < given.cols; ++n) scales.push_back(given.row(g)[n] * factor);
    }
    expert.down.scales = {scales.data(), given.rows, given.cols};
  }
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
      will_read_all(checkpoint, first, -1);
      return first.matrices.empty() ? upload_floats(backend, first.weight)
                                    : upload_transposed(backend, first.matrices.front());
    case BlockKind::head: {
      will_read_all(checkpoint, first, -1);
      const std::vector<float> values = widen(first.weight);
      return std::move(backend.pack_head({values.data(), block.out, block.in}).data);
    }
    case BlockKind::linear_out:
    case BlockKind::linear_in:
      return make_linear(sources, backend, block);
    case BlockKind::expert:
      return make_expert(sources, backend, block.groups, block.down_factor);
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
    done_.bytes_total += checkpoint.get(path).bytes();
  }
}

void BlockProgress::done_with(const WeightBlock& block) {
  for (const std::string& path : block.tensors) {
    const CheckpointTensor& tensor = checkpoint_.get(path);
    const std::lock_guard lock(mutex_);
    if (--uses_[path] > 0) {
      for (const auto part : expert_parts(tensor, block.expert)) checkpoint_.done_with(tensor, part);
      continue;
    }
    checkpoint_.done_with(tensor);
    done_.tensors_done += 1;
    done_.bytes_done += tensor.bytes();
    if (sink_) sink_(done_);
  }
}

std::unique_ptr<BlockSource> checkpoint_blocks(const Checkpoint& checkpoint, kernels::Backend& backend,
                                               std::span<const WeightBlock> blocks, Shard shard,
                                               ProgressSink progress) {
  return std::make_unique<CheckpointBlocks>(checkpoint, backend, blocks, shard, std::move(progress));
}

}  // namespace grokd

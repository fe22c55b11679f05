#pragma once
// A checkpoint on disk, whatever its form: named tensors whose bytes are mapped, not copied.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/mapped_file.h"
#include "engine/models/config.h"

namespace grokd {

enum class DType { f32, bf16, f16, i8 };
std::string_view dtype_name(DType type);
std::size_t dtype_bytes(DType type);

/// Row-major array inside a mapped file: `data` may be unaligned. Empty shape and null data: absent.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  bool present() const { return data != nullptr; }
  std::size_t bytes() const;
};

/// One parameter. Quantised ones have i8 `weight` and `scales`; plain ones only `weight`.
struct CheckpointTensor {
  std::string path;  // "transformer/decoder_layer_3/moe/linear/w": xAI's names are the canonical ones
  std::string file;  // where it lies, for messages
  TensorView weight;
  TensorView scales;
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  virtual std::span<const CheckpointTensor> tensors() const = 0;
  /// Throws ConfigError naming the checkpoint and the path when it is missing.
  virtual const CheckpointTensor& get(std::string_view path) const = 0;
  /// A part of the tensor that will be read soon, for the system to fetch ahead.
  virtual void will_read(const CheckpointTensor& tensor, const ByteRows& rows) const = 0;
  /// The tensor's pages, or those of a part of its weight, are no longer needed: lets the system drop them
  /// (page cache included).
  virtual void done_with(const CheckpointTensor& tensor) const = 0;
  virtual void done_with(const CheckpointTensor& tensor, std::span<const std::byte> part) const = 0;
};

/// Called from any thread as tensors are read; see progress.h for the one that prints.
struct LoadProgress {
  std::size_t tensors_done = 0, tensors_total = 0;
  std::size_t bytes_done = 0, bytes_total = 0;
};
using ProgressSink = std::function<void(const LoadProgress&)>;

/// Opens MODEL_DIR/config.checkpoint in the form found there; every tensor's name, shape and dtype is checked
/// against the config. Throws ConfigError naming file and tensor.
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model_dir, const ModelConfig& config);
/// The same with xAI's rules for renamed and left out parameters: load_rules.h.
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model_dir, const ModelConfig& config,
                                            const struct LoadRules& rules);

}  // namespace grokd

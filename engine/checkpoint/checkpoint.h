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

/// q8_0: GGUF's blocks of 32 values, one f16 scale and 32 int8 codes each.
enum class DType { f32, bf16, f16, i8, q8_0 };
std::string_view dtype_name(DType type);
/// Bytes of one value; not for q8_0.
std::size_t dtype_bytes(DType type);
/// Bytes of `count` values that lie together; q8_0: a multiple of 32.
std::size_t run_bytes(DType type, std::size_t count);

/// Row-major array inside a mapped file: `data` may be unaligned. Empty shape and null data: absent.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  bool present() const { return data != nullptr; }
  std::size_t count() const;  // of values
  std::size_t bytes() const;
};

/// A float matrix [out, in] as most projects keep it, in one piece or cut into several.
struct FloatMatrix {
  std::vector<TensorView> pieces;
  bool along_inputs = false;  // pieces are runs of inputs; else runs of outputs
  int paired_head = 0;        // width of heads whose outputs stand in RoPE's pairs (0, d/2, 1, d/2 + 1, ...)
  std::int64_t in() const;
  std::int64_t out() const;
};

/// One parameter. xAI's quantised ones have i8 `weight` and `scales`, plain ones only `weight`; float
/// matrices are packed as they are read.
struct CheckpointTensor {
  std::string path;  // "transformer/decoder_layer_3/moe/linear/w": xAI's names are the canonical ones
  std::string file;  // where it lies, for messages
  TensorView weight;
  TensorView scales;
  std::vector<FloatMatrix> matrices = {};  // instead of both: one an expert, or one

  std::size_t bytes() const;
  std::size_t parameters() const;
  /// The arrays it consists of; those of one expert if `expert` is not negative and it has experts.
  std::vector<TensorView> arrays(int expert = -1) const;
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

#include "engine/checkpoint/checkpoint.h"

#include <array>
#include <filesystem>

#include "engine/checkpoint/gguf_checkpoint.h"
#include "engine/checkpoint/packed_file.h"
#include "engine/checkpoint/safetensors_checkpoint.h"
#include "engine/checkpoint/xai_checkpoint.h"

namespace grokd {
namespace {

struct DTypeInfo {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeInfo, 5> kDTypes = {{{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i8", 1}, {"q8_0", 0}}};
constexpr std::size_t kQ8Values = 32, kQ8Bytes = 34;

/// One row per form of checkpoint on disk; the first that recognises the folder opens it.
struct Form {
  std::string_view name;
  bool (*recognise)(const std::string& folder);
  std::unique_ptr<Checkpoint> (*open)(const std::string& folder, const ModelConfig&, const LoadRules&);
};

constexpr std::array<Form, 3> kForms = {
    {{"xAI's tensorNNNNN_000 files", is_xai_checkpoint, open_xai_checkpoint},
     {"safetensors files", is_safetensors_checkpoint, open_safetensors_checkpoint},
     {"GGUF files", is_gguf_checkpoint, open_gguf_checkpoint}}};

}  // namespace

std::string_view dtype_name(DType type) { return kDTypes[static_cast<std::size_t>(type)].name; }
std::size_t dtype_bytes(DType type) { return kDTypes[static_cast<std::size_t>(type)].bytes; }

std::size_t run_bytes(DType type, std::size_t count) {
  return type == DType::q8_0 ? count / kQ8Values * kQ8Bytes : count * dtype_bytes(type);
}

std::size_t TensorView::count() const {
  if (!present()) return 0;
  std::size_t values = 1;
  for (const std::int64_t dim : shape) values *= static_cast<std::size_t>(dim);
  return values;
}

std::size_t TensorView::bytes() const { return run_bytes(dtype, count()); }

namespace {

std::int64_t sum_of(const FloatMatrix& matrix, std::size_t dimension, bool cut) {
  std::int64_t total = matrix.pieces.front().shape[dimension];
  for (std::size_t i = 1; cut && i < matrix.pieces.size(); ++i) total += matrix.pieces[i].shape[dimension];
  return total;
}

}  // namespace

std::int64_t FloatMatrix::in() const { return sum_of(*this, 1, along_inputs); }
std::int64_t FloatMatrix::out() const { return sum_of(*this, 0, !along_inputs); }

std::vector<TensorView> CheckpointTensor::arrays(int expert) const {
  std::vector<TensorView> result;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (expert >= 0 && matrices.size() > 1 && i != static_cast<std::size_t>(expert)) continue;
    result.insert(result.end(), matrices[i].pieces.begin(), matrices[i].pieces.end());
  }
  if (weight.present()) result.push_back(weight);
  if (scales.present()) result.push_back(scales);
  return result;
}

std::size_t CheckpointTensor::bytes() const {
  std::size_t total = 0;
  for (const TensorView& array : arrays()) total += array.bytes();
  return total;
}

std::size_t CheckpointTensor::parameters() const {
  std::size_t total = weight.count();
  for (const FloatMatrix& matrix : matrices) {
    for (const TensorView& piece : matrix.pieces) total += piece.count();
  }
  return total;
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model_dir, const ModelConfig& config,
                                            const LoadRules& rules) {
  const std::string folder = (std::filesystem::path(model_dir) / config.checkpoint).string();
  if (!std::filesystem::is_directory(folder)) throw ConfigError(folder + ": no such checkpoint folder");
  if (packed_ranks(folder) > 0)
    throw ConfigError(folder + ": is packed, its tensors cannot be read one by one (grokd verify checks it)");
  std::string known;
  for (const Form& form : kForms) {
    if (form.recognise(folder)) return form.open(folder, config, rules);
    known += (known.empty() ? "" : ", ") + std::string(form.name);
  }
  throw ConfigError(folder + ": holds no checkpoint of a known form (known: " + known + ")");
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model_dir, const ModelConfig& config) {
  return open_checkpoint(model_dir, config, LoadRules{});
}

}  // namespace grokd

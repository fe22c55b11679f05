#include "engine/checkpoint/checkpoint.h"

#include <array>
#include <filesystem>

#include "engine/checkpoint/packed_file.h"
#include "engine/checkpoint/xai_checkpoint.h"

namespace grokd {
namespace {

struct DTypeInfo {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeInfo, 4> kDTypes = {{{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i8", 1}}};

/// One row per form of checkpoint on disk; the first that recognises the folder opens it.
struct Form {
  std::string_view name;
  bool (*recognise)(const std::string& folder);
  std::unique_ptr<Checkpoint> (*open)(const std::string& folder, const ModelConfig&, const LoadRules&);
};

constexpr std::array<Form, 1> kForms = {
    {{"xAI's tensorNNNNN_000 files", is_xai_checkpoint, open_xai_checkpoint}}};

}  // namespace

std::string_view dtype_name(DType type) { return kDTypes[static_cast<std::size_t>(type)].name; }
std::size_t dtype_bytes(DType type) { return kDTypes[static_cast<std::size_t>(type)].bytes; }

std::size_t TensorView::bytes() const {
  if (!present()) return 0;
  std::size_t count = dtype_bytes(dtype);
  for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
  return count;
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

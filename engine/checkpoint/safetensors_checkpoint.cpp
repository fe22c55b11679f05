#include "engine/checkpoint/safetensors_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/checkpoint/named_checkpoint.h"
#include "engine/checkpoint/safetensors_file.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kEnd = ".safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::uintmax_t kLargestIndex = 64 << 20;

std::set<std::string> all_files(const std::string& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (const std::string name = entry.path().filename().string(); name.ends_with(kEnd)) names.insert(name);
  }
  return names;
}

json read_index(const fs::path& path) {
  if (fs::file_size(path) > kLargestIndex) throw ConfigError(path.string() + ": is too large for an index");
  std::ifstream stream(path);
  const json index = json::parse(stream, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw ConfigError(path.string() + ": has no weight_map");
  return index["weight_map"];
}

std::set<std::string> indexed_files(const fs::path& path) {
  std::set<std::string> names;
  const json index = read_index(path);
  for (const auto& [tensor, file] : index.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (!name.ends_with(kEnd) || name.find('/') != name.npos)
      throw ConfigError(path.string() + ": " + tensor + ": is in no file of this folder");
    if (names.insert(name).second && !fs::exists(path.parent_path() / name))
      throw ConfigError((path.parent_path() / name).string() + ": missing, the index names it");
  }
  return names;
}

/// A folder may hold the same model in a second form beside the indexed one. Files cut for several devices
/// hold tensors of the same names, which an index cannot list.
std::set<std::string> files_of(const std::string& folder) {
  const fs::path index = (fs::path(folder) / kIndex).lexically_normal();
  const std::set<std::string> all = all_files(folder);
  const bool cut = std::any_of(all.begin(), all.end(),
                               [](const std::string& name) { return name.find("-TP-") != name.npos; });
  if (!cut && fs::exists(index)) return indexed_files(index);
  if (!cut && all.count("model.safetensors") > 0) return {"model.safetensors"};
  return all;
}

}  // namespace

bool is_safetensors_checkpoint(const std::string& folder) { return !all_files(folder).empty(); }

std::unique_ptr<Checkpoint> open_safetensors_checkpoint(const std::string& folder, const ModelConfig& config,
                                                        const LoadRules& rules) {
  StoredTensors stored;
  stored.folder = folder;
  std::set<std::string> names;
  for (const std::string& name : files_of(folder)) {
    const std::string path = (fs::path(folder) / name).lexically_normal().string();
    stored.files.emplace_back(path);
    try {
      for (StoredTensor& tensor : read_safetensors(stored.files.back().bytes())) {
        tensor.file = path;
        names.insert(tensor.name);
        stored.tensors.push_back(std::move(tensor));
      }
    } catch (const FileFormatError& error) {
      throw ConfigError(path + ": " + error.what());
    }
  }
  const NameTable* table = choose_names(safetensors_names(), config.model_type,
                                        [&](const std::string& name) { return names.count(name) > 0; });
  if (table == nullptr)
    throw ConfigError(folder + ": safetensors files of a " + config.model_type + " are not known");
  return make_named_checkpoint(std::move(stored), *table, config, rules);
}

}  // namespace grokd

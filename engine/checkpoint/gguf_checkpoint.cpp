#include "engine/checkpoint/gguf_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/checkpoint/gguf_file.h"
#include "engine/checkpoint/named_checkpoint.h"

namespace grokd {

namespace fs = std::filesystem;

std::vector<std::string> gguf_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path().lexically_normal().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_gguf_checkpoint(const std::string& folder) { return !gguf_files(folder).empty(); }

std::unique_ptr<Checkpoint> open_gguf_checkpoint(const std::string& folder, const ModelConfig& config,
                                                 const LoadRules& rules) {
  StoredTensors stored;
  stored.folder = folder;
  // llama.cpp's converter turns the rows of query and key of Llama's kind, not of Grok's.
  stored.paired_heads = config.model_type.starts_with("grok") ? 0 : config.key_size;
  std::set<std::string> names;
  for (const std::string& path : gguf_files(folder)) {
    stored.files.emplace_back(path);
    try {
      for (StoredTensor& tensor : read_gguf(stored.files.back().bytes()).tensors) {
        tensor.file = path;
        names.insert(tensor.name);
        stored.tensors.push_back(std::move(tensor));
      }
    } catch (const FileFormatError& error) {
      throw ConfigError(path + ": " + error.what());
    }
  }
  const NameTable* table = choose_names(gguf_names(), config.model_type,
                                        [&](const std::string& name) { return names.count(name) > 0; });
  if (table == nullptr)
    throw ConfigError(folder + ": GGUF files of a " + config.model_type + " are not known");
  return make_named_checkpoint(std::move(stored), *table, config, rules);
}

}  // namespace grokd

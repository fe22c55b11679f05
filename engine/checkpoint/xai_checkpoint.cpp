#include "engine/checkpoint/xai_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <thread>

#include "engine/checkpoint/mapped_file.h"
#include "engine/checkpoint/tensor_table.h"
#include "engine/checkpoint/xai_pickle.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;

struct MappedTensor {
  MappedFile file;
  CheckpointTensor tensor;
};

class XaiCheckpoint final : public Checkpoint {
 public:
  XaiCheckpoint(std::string folder, std::vector<MappedTensor> mapped) : folder_(std::move(folder)) {
    for (MappedTensor& entry : mapped) {
      index_.emplace(entry.tensor.path, tensors_.size());
      files_.push_back(std::move(entry.file));
      tensors_.push_back(std::move(entry.tensor));
    }
  }

  std::span<const CheckpointTensor> tensors() const override { return tensors_; }

  const CheckpointTensor& get(std::string_view path) const override {
    const auto found = index_.find(path);
    if (found == index_.end()) throw ConfigError(folder_ + ": has no tensor " + std::string(path));
    return tensors_[found->second];
  }

  void will_read(const CheckpointTensor& tensor, const ByteRows& rows) const override {
    if (const MappedFile* file = file_of(tensor)) file->will_read(rows);
  }
  void done_with(const CheckpointTensor& tensor) const override {
    if (const MappedFile* file = file_of(tensor)) file->drop_pages();
  }
  void done_with(const CheckpointTensor& tensor, std::span<const std::byte> part) const override {
    if (const MappedFile* file = file_of(tensor)) file->drop_pages(part);
  }

 private:
  const MappedFile* file_of(const CheckpointTensor& tensor) const {
    const auto found = index_.find(tensor.path);
    return found != index_.end() ? &files_[found->second] : nullptr;
  }

  std::string folder_;
  std::vector<MappedFile> files_;
  std::vector<CheckpointTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// A row of the tensor table with the file it is taken from.
struct Source {
  TensorSpec spec;
  std::string file;
};

void check_array(const Source& source, const char* part, const TensorView& found,
                 const std::vector<std::int64_t>& shape) {
  if (found.shape == shape) return;
  throw ConfigError(source.file + ": " + source.spec.path + ": " + part + " has shape " +
                    shape_text(found.shape) + ", config.json asks for " + shape_text(shape));
}

MappedTensor open_tensor(const Source& source) {
  MappedTensor result{MappedFile(source.file), {source.spec.path, source.file, {}, {}}};
  PickledTensor read;
  try {
    read = read_xai_pickle(result.file.bytes());
  } catch (const PickleError& error) {
    throw ConfigError(source.file + ": " + source.spec.path + ": " + error.what());
  }
  check_array(source, "weight", read.weight, source.spec.weight);
  if (read.scales.present() != source.spec.quantized()) {
    throw ConfigError(source.file + ": " + source.spec.path + ": " +
                      (read.scales.present() ? "is int8 with scales where a plain float32 array belongs"
                                             : "is a plain float32 array where int8 with scales belongs"));
  }
  if (source.spec.quantized()) check_array(source, "scales", read.scales, source.spec.scales);
  result.tensor.weight = std::move(read.weight);
  result.tensor.scales = std::move(read.scales);
  return result;
}

/// Opens all files, several at a time; of several errors the first file's is reported.
std::vector<MappedTensor> open_all(const std::vector<Source>& sources) {
  std::vector<MappedTensor> opened(sources.size());
  std::vector<std::exception_ptr> errors(sources.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) {
      try {
        opened[i] = open_tensor(sources[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    for (std::size_t n = std::min(cores, sources.size()); n > 1; --n) threads.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return opened;
}

std::string file_path(const std::string& folder, std::size_t index) {
  return (fs::path(folder) / xai_file_name(index)).string();
}

std::vector<Source> sources_of(const std::string& folder, const std::vector<TensorSpec>& table,
                               const LoadRules& rules) {
  std::map<std::string, std::size_t> stored;
  for (std::size_t i = 0; i < table.size(); ++i) stored.emplace(table[i].path, i);
  std::vector<Source> sources;
  for (const TensorSpec& spec : table) {
    const auto path = stored_path(rules, spec.path);
    if (!path) continue;
    const auto found = stored.find(*path);
    if (found == stored.end()) {
      throw ConfigError(folder + ": has no tensor " + *path + " (renamed from " + spec.path + ")");
    }
    sources.push_back({spec, file_path(folder, found->second)});
  }
  return sources;
}

void check_files(const std::string& folder, const std::vector<Source>& sources, std::size_t table_size) {
  const auto missing = [](const Source& source) { return !fs::exists(source.file); };
  if (const auto count = std::count_if(sources.begin(), sources.end(), missing); count > 0) {
    const auto first = std::find_if(sources.begin(), sources.end(), missing);
    throw ConfigError(first->file + ": missing (" + first->spec.path + "); " + std::to_string(count) +
                      " of " + std::to_string(sources.size()) + " tensor files are missing");
  }
  // With another number of layers the files stand for other layers without a wrong shape anywhere.
  if (fs::exists(file_path(folder, table_size))) {
    throw ConfigError(file_path(folder, table_size) + ": one file too many, config.json describes " +
                      std::to_string(table_size) + " tensors (num_layers)");
  }
}

}  // namespace

std::string xai_file_name(std::size_t index) {
  std::string digits = std::to_string(index);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return "tensor" + digits + "_000";
}

bool is_xai_checkpoint(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tensor") && name.ends_with("_000")) return true;
  }
  return false;
}

std::unique_ptr<Checkpoint> open_xai_checkpoint(const std::string& folder, const ModelConfig& config,
                                                const LoadRules& rules) {
  const std::vector<TensorSpec> table = tensor_table(config);
  const std::vector<Source> sources = sources_of(folder, table, rules);
  check_files(folder, sources, table.size());
  return std::make_unique<XaiCheckpoint>(folder, open_all(sources));
}

}  // namespace grokd

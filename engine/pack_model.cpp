#include "engine/pack_model.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <thread>

#include "engine/bytes_tokenizer.h"
#include "engine/checkpoint/packed_file.h"
#include "engine/checkpoint/packed_writer.h"
#include "engine/checkpoint/weights_fingerprint.h"
#include "engine/kv_ranges.h"
#include "engine/mesh.h"
#include "engine/models/model.h"
#include "engine/models/weights.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "packed";

/// One rank's blocks and the file they go to.
struct RankFile {
  RankFile(Shard s, std::vector<WeightBlock> all, const std::string& path, PackedIdentity identity)
      : shard(s), blocks(std::move(all)), writer(path, packed_layout(std::move(identity), blocks)) {}
  Shard shard;
  std::vector<WeightBlock> blocks;
  PackedWriter writer;
};

class Packer {
 public:
  Packer(const Checkpoint& checkpoint, const ModelConfig& config, const std::string& folder, int ranks,
         const ProgressSink& progress);
  /// The same block of all ranks is one task, so that a tensor is read once.
  void run(int threads);

 private:
  void pack(RankFile& rank, std::size_t i);

  const Checkpoint& checkpoint_;
  const std::unique_ptr<kernels::Backend> backend_;
  std::deque<RankFile> ranks_;
  std::unique_ptr<BlockProgress> progress_;
};

Packer::Packer(const Checkpoint& checkpoint, const ModelConfig& config, const std::string& folder, int ranks,
               const ProgressSink& progress)
    : checkpoint_(checkpoint), backend_(kernels::make_cpu_backend({.threads = 1, .isa = "scalar"})) {
  const std::string weights = weights_fingerprint(checkpoint);
  const Architecture& architecture = find_architecture(config.model_type);
  for (int rank = 0; rank < ranks; ++rank) {
    const Shard shard{rank, ranks};
    ranks_.emplace_back(shard, architecture.blocks(config, shard),
                        (fs::path(folder) / packed_file_name(shard)).string(),
                        packed_identity(config, std::string(backend_->weight_layout()), weights, shard));
  }
  progress_ = std::make_unique<BlockProgress>(checkpoint, ranks_.front().blocks, progress);
}

void Packer::pack(RankFile& rank, std::size_t i) {
  if (rank.writer.whole() || rank.writer.has(i)) return;
  const kernels::Buffer buffer = make_block(checkpoint_, *backend_, rank.blocks[i], rank.shard);
  rank.writer.write(i, {buffer.data(), buffer.bytes()});
}

void Packer::run(int threads) {
  std::vector<std::function<void()>> tasks;
  for (const WeightBlock& block : ranks_.front().blocks) {
    tasks.emplace_back([&] {
      for (RankFile& rank : ranks_) {
        const auto same = std::find_if(rank.blocks.begin(), rank.blocks.end(),
                                       [&](const WeightBlock& other) { return other.name == block.name; });
        if (same != rank.blocks.end()) pack(rank, static_cast<std::size_t>(same - rank.blocks.begin()));
      }
      progress_->done_with(block);
    });
  }
  run_parallel(tasks, threads);
  for (RankFile& rank : ranks_) rank.writer.finish();
}

void copy_into(const std::string& out, const std::string& model_dir, const std::string& name) {
  const fs::path from = fs::path(model_dir) / name, to = fs::path(out) / name;
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error)
    throw ConfigError(from.string() + ": cannot be copied to " + to.string() + ": " + error.message());
}

}  // namespace

void pack_model(const std::string& model_dir, const ModelConfig& config, const std::string& out,
                const PackOptions& options, const ProgressSink& progress) {
  check_mesh(config, {1, options.tensor_parallel});
  const auto checkpoint = open_checkpoint(model_dir, config);
  const std::string folder = (fs::path(out) / kFolder).string();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ConfigError(folder + ": cannot be made: " + error.message());
  if (const int ranks = packed_ranks(folder); ranks != 0 && ranks != options.tensor_parallel)
    throw ConfigError(folder + ": is packed for tensor parallel " + std::to_string(ranks) +
                      "; choose another folder for " + std::to_string(options.tensor_parallel));
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Packer(*checkpoint, config, folder, options.tensor_parallel, progress)
      .run(options.threads > 0 ? options.threads : cores);
  if (config.tokenizer != kBytesTokenizer) copy_into(out, model_dir, config.tokenizer);
  if (fs::exists(fs::path(model_dir) / kKvRangesFile)) copy_into(out, model_dir, kKvRangesFile);
  ModelConfig packed = config;
  packed.checkpoint = kFolder;
  save_model_config(packed, out);
}

}  // namespace grokd

#include "engine/verify_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/models/weights.h"
#include "engine/packed_model.h"

namespace grokd {
namespace {

/// The report and the progress, from several threads.
class Log {
 public:
  Log(VerifyReport& report, const ProgressSink& progress) : report_(report), progress_(progress) {}
  void expect(std::size_t bytes) {
    done_.tensors_total += 1;
    done_.bytes_total += bytes;
    report_.bytes += bytes;
  }
  void problem(std::string text) {
    const std::lock_guard lock(mutex_);
    report_.problems.push_back(std::move(text));
  }
  void done(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    done_.tensors_done += 1;
    done_.bytes_done += bytes;
    if (progress_) progress_(done_);
  }

 private:
  VerifyReport& report_;
  const ProgressSink& progress_;
  std::mutex mutex_;
  LoadProgress done_;
};

/// One file, tensor or block.
struct Check {
  std::size_t bytes;
  std::function<void()> run;
};

void run_checks(const std::vector<Check>& checks, int threads, Log& log) {
  std::vector<std::function<void()>> tasks;
  for (const Check& check : checks) {
    log.expect(check.bytes);
    tasks.emplace_back([&log, &check] {
      try {
        check.run();
      } catch (const ConfigError& error) {
        log.problem(error.what());
      }
      log.done(check.bytes);
    });
  }
  run_parallel(tasks,
               threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

std::size_t count_not_finite(const TensorView& view) {
  // In pieces: a widened copy of the largest tensor would be gigabytes.
  constexpr std::size_t kPiece = 1 << 16;
  const std::size_t count = view.count();
  std::size_t bad = 0;
  for (std::size_t at = 0; at < count; at += kPiece) {
    const std::size_t n = std::min(kPiece, count - at);
    for (const float value :
         widen({view.data + run_bytes(view.dtype, at), view.dtype, {static_cast<std::int64_t>(n)}}))
      bad += !std::isfinite(value);
  }
  return bad;
}

void check_finite(const CheckpointTensor& tensor, const TensorView& view, const char* part) {
  if (!view.present() || view.dtype == DType::i8) return;
  if (const std::size_t bad = count_not_finite(view); bad > 0)
    throw ConfigError(tensor.file + ": " + tensor.path + ": " + std::to_string(bad) + " values of the " +
                      part + " are not finite");
}

void verify_checkpoint(const Checkpoint& checkpoint, const VerifyOptions& options, Log& log) {
  std::vector<Check> checks;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const std::size_t bytes = tensor.bytes();
    checks.push_back({bytes, [&tensor, &checkpoint, &options] {
                        if (options.structure_only) return;
                        check_finite(tensor, tensor.weight, "weight");
                        check_finite(tensor, tensor.scales, "scales");
                        for (const FloatMatrix& matrix : tensor.matrices) {
                          for (const TensorView& piece : matrix.pieces) check_finite(tensor, piece, "weight");
                        }
                        checkpoint.done_with(tensor);
                      }});
  }
  run_checks(checks, options.threads, log);
}

void verify_packed(const PackedModel& model, const ModelConfig& config, const VerifyOptions& options,
                   Log& log) {
  const Architecture& architecture = find_architecture(config.model_type);
  std::vector<Check> checks;
  for (int rank = 0; rank < model.ranks(); ++rank) {
    const PackedFile& file = model.file(rank);
    for (const WeightBlock& block : architecture.blocks(config, {rank, model.ranks()})) {
      const std::size_t bytes = block_bytes(block);
      checks.push_back({bytes, [&file, &options, bytes, name = block.name] {
                          const PackedEntry& entry = file.entry(name, bytes);
                          if (!options.structure_only) file.read(entry, [](std::uint64_t, auto) {});
                        }});
    }
  }
  run_checks(checks, options.threads, log);
}

}  // namespace

VerifyReport verify_model(const std::string& model_dir, const ModelConfig& config,
                          const VerifyOptions& options, const ProgressSink& progress) {
  VerifyReport report;
  Log log(report, progress);
  const std::string folder = (std::filesystem::path(model_dir) / config.checkpoint).string();
  if (const int ranks = packed_ranks(folder); ranks > 0) {
    report.form = "packed for " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
    verify_packed(PackedModel(folder, config), config, options, log);
  } else {
    const auto checkpoint = open_checkpoint(model_dir, config);
    report.form = "checkpoint of " + std::to_string(checkpoint->tensors().size()) + " tensors";
    verify_checkpoint(*checkpoint, options, log);
  }
  std::sort(report.problems.begin(), report.problems.end());
  return report;
}

}  // namespace grokd

#include "engine/model_runner.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "engine/kv_ranges.h"
#include "engine/mesh.h"
#include "engine/process_runner.h"
#include "engine/rank_model.h"
#include "kernels/thread_group.h"

namespace grokd {

BackendChoice choose_backend(const std::string& asked) {
  if (asked == "cpu" || asked == "reference") return {asked, ""};
  if (asked != "cuda" && asked != "auto")
    throw ConfigError("unknown backend \"" + asked + "\"; known: cpu, cuda, auto, reference");
  const std::string missing = kernels::cuda_unavailable();
  if (missing.empty()) return {"cuda", ""};
  if (asked == "cuda") throw ConfigError("--backend cuda: " + missing);
  return {"cpu", missing};
}

std::unique_ptr<kernels::Backend> make_backend(const RunnerOptions& options) {
  const std::string backend = choose_backend(options.backend).backend;
  if (backend == "reference") return kernels::make_reference_backend();
  try {
    if (backend == "cuda") return kernels::make_cuda_backend(options.cuda);
    return kernels::make_cpu_backend(options.cpu);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
}

namespace {

std::unique_ptr<kernels::RankGroup> make_group(const RunnerOptions& options) {
  if (options.backend != "cuda") return std::make_unique<kernels::ThreadGroup>(options.tensor_parallel);
  try {
    return kernels::make_cuda_group(options.cuda, options.tensor_parallel);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
}

class LocalModelRunner final : public ModelRunner {
 public:
  LocalModelRunner(const ModelSource& source, const RunnerOptions& options, const ProgressSink& progress)
      : model_(source, options, group_, progress) {}

  const RunnerLimits& limits() const override { return model_.limits(); }
  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    model_.run(batch, sampled);
  }

 private:
  kernels::SingleRank group_;
  RankModel model_;
};

/// Every rank but the first runs in a thread of its own and waits for steps; the first is the caller.
class GroupModelRunner final : public ModelRunner {
 public:
  GroupModelRunner(const ModelSource& source, const RunnerOptions& options, const ProgressSink& progress)
      : group_(make_group(options)), steps_(options.tensor_parallel) {
    RunnerOptions each = options_of_rank(options);
    for (int r = 0; r < options.tensor_parallel; ++r) {
      each.cuda.device = options.cuda.device + r;
      ranks_.push_back(
          std::make_unique<RankModel>(source, each, group_->rank(r), r == 0 ? progress : ProgressSink{}));
    }
    for (int r = 1; r < options.tensor_parallel; ++r) threads_.emplace_back([this, r] { follow(r); });
  }

  ~GroupModelRunner() override {
    steps_.abandon();
    for (std::thread& thread : threads_) thread.join();
  }

  const RunnerLimits& limits() const override { return ranks_[0]->limits(); }

  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    batch_ = &batch;
    steps_.arrive_and_wait();
    run_rank(0, sampled);
    steps_.arrive_and_wait();  // nobody reads the batch any more
  }

 private:
  /// The threads are shared out over the ranks.
  static RunnerOptions options_of_rank(RunnerOptions options) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int threads = options.cpu.threads > 0 ? options.cpu.threads : cores;
    options.cpu.threads = std::max(1, threads / options.tensor_parallel);
    return options;
  }

  void run_rank(int rank, std::span<kernels::SampledToken> sampled) {
    try {
      ranks_[static_cast<std::size_t>(rank)]->run(*batch_, sampled);
    } catch (...) {
      group_->abandon();
      steps_.abandon();
      throw;
    }
  }

  void follow(int rank) {
    try {
      for (;;) {
        steps_.arrive_and_wait();
        run_rank(rank, {});
        steps_.arrive_and_wait();
      }
    } catch (const std::exception&) {
      // The group ends; rank 0 tells why.
    }
  }

  std::unique_ptr<kernels::RankGroup> group_;
  kernels::GroupBarrier steps_;  // a step begins, a step has ended
  std::vector<std::unique_ptr<RankModel>> ranks_;
  const Batch* batch_ = nullptr;
  std::vector<std::thread> threads_;
};

/// As many as there are processes, as the files are packed for, as was asked for; all that are given agree.
int rank_count(const std::string& model_dir, int packed, const RunnerOptions& options) {
  int asked = options.tensor_parallel;
  if (options.processes) {
    const int processes = options.processes->size();
    if (asked != 0 && asked != processes)
      throw ConfigError("--tensor-parallel " + std::to_string(asked) + ", but " + std::to_string(processes) +
                        " processes were launched");
    asked = processes;
  }
  if (packed == 0) return asked == 0 ? 1 : asked;
  if (asked != 0 && asked != packed)
    throw ConfigError(model_dir + ": is packed for tensor parallel " + std::to_string(packed) + ", not " +
                      std::to_string(asked));
  return packed;
}

/// Opens the files, completes the options and hands both to `use`.
template <class Use>
auto with_files(const std::string& model_dir, const ModelConfig& config, RunnerOptions options, Use use) {
  try {
    const auto files = open_model_files(model_dir, config);
    options.backend = choose_backend(options.backend).backend;
    if (options.processes && options.backend == "cuda")
      throw ConfigError("--backend cuda: ranks are threads of one process, not processes under mpirun");
    options.tensor_parallel = rank_count(model_dir, files->ranks(), options);
    check_mesh(config, {1, options.tensor_parallel});
    std::optional<KvRangeTable> ranges;
    if (options.kv_type == kernels::KvType::int8) {
      ranges = load_kv_ranges(model_dir, config, files->fingerprint());
    }
    return use(ModelSource{*files, config, ranges ? &*ranges : nullptr}, options);
  } catch (const std::bad_alloc&) {
    throw ConfigError("model " + config.name + " does not fit into memory");
  }
}

}  // namespace

std::unique_ptr<ModelRunner> load_model(const std::string& model_dir, const ModelConfig& config,
                                        const RunnerOptions& asked, const ProgressSink& progress) {
  using Runner = std::unique_ptr<ModelRunner>;
  return with_files(model_dir, config, asked, [&](const ModelSource& source, const RunnerOptions& options) {
    if (options.processes) return lead_processes(source, options, progress);
    if (options.tensor_parallel > 1)
      return Runner(std::make_unique<GroupModelRunner>(source, options, progress));
    return Runner(std::make_unique<LocalModelRunner>(source, options, progress));
  });
}

void follow_model(const std::string& model_dir, const ModelConfig& config, const RunnerOptions& asked) {
  with_files(model_dir, config, asked, [&](const ModelSource& source, const RunnerOptions& options) {
    follow_process(source, options);
  });
}

}  // namespace grokd

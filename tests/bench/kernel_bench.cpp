// grokd_kernel_bench [S|M] [threads] [isa]: steps of a Grok-shaped model of random weights, in milliseconds
// by op, beside the read bandwidth of the same weights and the multiply peak measured around them.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/bench/limits.h"
#include "tests/bench/model.h"

namespace grokd::bench {
namespace {

constexpr Shape kSmall{"S", 512, 8, 8, 2, 64, 8, 2, 1024, 8, 8192};
constexpr Shape kMedium{"M", 2048, 12, 16, 4, 128, 8, 2, 4096, 8, 32768};
constexpr int kMostTokens = 512;
constexpr int kContext = 1024;
constexpr int kDecodePosition = 128;

struct Limits {
  double bandwidth, peak;
};

Limits print_limits(const Model& model, int threads) {
  const std::vector<Block> blocks = model.weight_blocks();
  const Limits limits{read_bandwidth(blocks, threads), vnni_peak(threads)};
  std::printf("read %.1f GB/s, multiply %.0f GMAC/s (two planes: %.0f)\n", limits.bandwidth, limits.peak,
              limits.peak / 2);
  return limits;
}

struct Steps {
  StepReport median;  // by total time
  double mean = 0;    // seconds
};

Steps run_steps(Model& model, int sequences, int rows, int position, int repeats) {
  std::vector<StepReport> reports;
  Steps steps;
  for (int i = 0; i < repeats; ++i) {
    reports.push_back(model.step(sequences, rows, position + (rows == 1 ? i : 0)));
    steps.mean += reports.back().total / repeats;
  }
  std::nth_element(reports.begin(), reports.begin() + repeats / 2, reports.end(),
                   [](const StepReport& x, const StepReport& y) { return x.total < y.total; });
  steps.median = reports[static_cast<std::size_t>(repeats / 2)];
  return steps;
}

void print(const char* what, int tokens, const Steps& steps, const Limits& limits) {
  const StepReport& report = steps.median;
  std::printf("%-12s %8.3f ms (mean %8.3f) %8.1f tok/s %6.1f GB/s (%3.0f %%) %6.1f GMAC/s (%3.0f %%) |", what,
              report.total * 1e3, steps.mean * 1e3, tokens / report.total, report.bytes / report.total * 1e-9,
              100 * report.bytes / report.total * 1e-9 / limits.bandwidth, report.macs / report.total * 1e-9,
              limits.peak > 0 ? 100 * report.macs / report.total * 1e-9 / (limits.peak / 2) : 0);
  for (int op = 0; op < kOpCount; ++op) std::printf(" %s %.3f", kOpNames[op], report.seconds[op] * 1e3);
  std::printf("\n");
}

void run(const Shape& shape, int threads, const char* isa) {
  const auto backend = kernels::make_cpu_backend({threads, isa});
  Model model(*backend, shape, kMostTokens, kContext);
  std::printf("%s, %d threads, %s\n", shape.name, threads, std::string(backend->name()).c_str());
  const int repeats = shape.width > 1000 ? 9 : 101;
  model.step(1, 1, 0);
  for (int sequences : {1, 2, 4, 8, 16}) {
    const Limits limits = print_limits(model, threads);
    char what[32];
    std::snprintf(what, sizeof what, "decode %d", sequences);
    print(what, sequences, run_steps(model, sequences, 1, kDecodePosition, repeats), limits);
  }
  for (int rows : {128, 512}) {
    const Limits limits = print_limits(model, threads);
    char what[32];
    std::snprintf(what, sizeof what, "prefill %d", rows);
    print(what, rows, run_steps(model, 1, rows, 0, 3), limits);
  }
  print_limits(model, threads);
}

}  // namespace
}  // namespace grokd::bench

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::strcmp(argv[1], "S") == 0;
  const int threads = argc > 2 ? std::atoi(argv[2]) : static_cast<int>(std::thread::hardware_concurrency());
  grokd::bench::run(small ? grokd::bench::kSmall : grokd::bench::kMedium, threads, argc > 3 ? argv[3] : "");
}

// grokd bench kernels: steps of a Grok-shaped model of random weights, op by op and without an engine, beside
// the read rate of the same weights and the multiply peak measured around them.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "service/bench/kernel_model.h"
#include "service/bench/machine.h"
#include "service/cli/commands.h"

namespace grokd::cli {
namespace {

const std::map<std::string, bench::Shape> kShapes = {
    {"small", {"small", 512, 8, 8, 2, 64, 8, 2, 1024, 8, 8192}},
    {"medium", {"medium", 2048, 12, 16, 4, 128, 8, 2, 4096, 8, 32768}},
};
constexpr int kMostTokens = 512;
constexpr int kContext = 1024;
constexpr int kDecodePosition = 128;

struct KernelFlags {
  std::string shape = "medium";
  kernels::CpuOptions cpu;
  int repeat = 9;
  bool json = false;
};

/// The middle one of several equal steps, with the limits measured before it.
struct KernelFigure {
  std::string name;
  int size = 1;  // tokens of the step
  bench::StepReport step;
  double read_limit = 0, multiply_limit = 0;  // bytes and products of 16-bit codes a second

  double read_rate() const { return step.bytes / step.total; }
  double multiply_rate() const { return step.macs / step.total; }
};

bench::StepReport middle_step(bench::KernelModel& model, int sequences, int rows, int position, int repeat) {
  std::vector<bench::StepReport> reports;
  for (int i = 0; i < repeat; ++i) {
    reports.push_back(model.step(sequences, rows, position + (rows == 1 ? i : 0)));
  }
  std::nth_element(reports.begin(), reports.begin() + repeat / 2, reports.end(),
                   [](const auto& x, const auto& y) { return x.total < y.total; });
  return reports[static_cast<std::size_t>(repeat / 2)];
}

std::vector<KernelFigure> run_steps(bench::KernelModel& model, int threads, int repeat) {
  std::vector<KernelFigure> figures;
  const auto blocks = model.weight_blocks();
  const auto run = [&](const char* name, int sequences, int rows, int position, int times) {
    const double read = bench::read_rate(blocks, threads), multiply = bench::vnni_peak(threads) / 2;
    figures.push_back(
        {name, sequences * rows, middle_step(model, sequences, rows, position, times), read, multiply});
  };
  model.step(1, 1, 0);  // warm-up
  for (const int sequences : {1, 2, 4, 8, 16}) run("decode", sequences, 1, kDecodePosition, repeat);
  for (const int rows : {128, 512}) run("prefill", 1, rows, 0, std::min(repeat, 3));
  return figures;
}

nlohmann::ordered_json to_json(const KernelFigure& f) {
  nlohmann::ordered_json ops;
  for (int op = 0; op < bench::kOpCount; ++op) ops[bench::kOpNames[op]] = f.step.seconds[op] * 1e3;
  return {{"name", f.name},
          {"size", f.size},
          {"tokens_per_second", f.size / f.step.total},
          {"bytes_per_token", f.step.bytes / f.size},
          {"read_gb_per_second", f.read_rate() * 1e-9},
          {"bandwidth_gb_per_second", f.read_limit * 1e-9},
          {"bandwidth_share", f.read_rate() / f.read_limit},
          {"gmac_per_second", f.multiply_rate() * 1e-9},
          {"multiply_share", f.multiply_limit > 0 ? f.multiply_rate() / f.multiply_limit : 0},
          {"ops_ms", ops}};
}

void print_table(const std::vector<KernelFigure>& figures) {
  std::printf("%-8s %5s %10s %10s %8s %8s %8s %9s %6s |", "run", "size", "ms", "tokens/s", "GB/s", "of read",
              "GMAC/s", "of planes", "");
  for (const char* op : bench::kOpNames) std::printf(" %9s", op);
  std::printf("\n");
  for (const KernelFigure& f : figures) {
    std::printf("%-8s %5d %10.3f %10.1f %8.1f %7.0f%% %8.1f %8.0f%% %6s |", f.name.c_str(), f.size,
                f.step.total * 1e3, f.size / f.step.total, f.read_rate() * 1e-9,
                100 * f.read_rate() / f.read_limit, f.multiply_rate() * 1e-9,
                f.multiply_limit > 0 ? 100 * f.multiply_rate() / f.multiply_limit : 0, "ms:");
    for (const double seconds : f.step.seconds) std::printf(" %9.3f", seconds * 1e3);
    std::printf("\n");
  }
}

int run_kernels(const KernelFlags& flags) {
  const auto backend = kernels::make_cpu_backend(flags.cpu);
  const int threads =
      flags.cpu.threads > 0 ? flags.cpu.threads : static_cast<int>(std::thread::hardware_concurrency());
  bench::KernelModel model(*backend, kShapes.at(flags.shape), kMostTokens, kContext);
  const auto figures = run_steps(model, threads, flags.repeat);
  if (!flags.json) {
    std::printf("%s, %s, %d threads\n", flags.shape.c_str(), std::string(backend->name()).c_str(), threads);
    print_table(figures);
    return 0;
  }
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const KernelFigure& figure : figures) out.push_back(to_json(figure));
  std::printf("%s\n", out.dump().c_str());
  return 0;
}

}  // namespace

void add_bench_kernels(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<KernelFlags>();
  CLI::App* command = bench.add_subcommand("kernels", "Steps of random weights, op by op, without an engine");
  command->add_option("--shape", flags->shape, "small or medium")
      ->capture_default_str()
      ->check(CLI::IsMember({"small", "medium"}));
  command->add_option("--repeat", flags->repeat, "Steps of which the middle one counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--threads", flags->cpu.threads, "Kernel threads; 0 = all cores");
  command->add_flag("--force-threads", flags->cpu.force_threads, "Allow more threads than cores");
  command->add_option("--isa", flags->cpu.isa, "scalar, avx2 or avx512");
  command->add_flag("--json", flags->json, "Print JSON instead of a table");
  command->callback([flags, &exit_code] { exit_code = run_kernels(*flags); });
}

}  // namespace grokd::cli

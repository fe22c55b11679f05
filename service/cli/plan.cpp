// grokd plan: what a model needs on each device of a mesh, before anything is loaded.

#include <sys/sysinfo.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/checkpoint/tensor_table.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/partition.h"
#include "service/bench/machine.h"
#include "service/cli/commands.h"

namespace grokd::cli {
namespace {

using nlohmann::ordered_json;

struct PlanFlags {
  std::string model;
  PlanOptions options;
  std::size_t kv_cache_mb = 0;
  bool specs = false, json = false;
};

struct Device {
  const char* name;
  double bytes;
  double bytes_per_second;
};

// Vendors' figures.
constexpr std::array<Device, 3> kDevices = {{
    {"80 GB (H100)", 80e9, 3.35e12},
    {"141 GB (H200)", 141e9, 4.8e12},
    {"192 GB (MI300X)", 192e9, 5.3e12},
}};

/// A folder with config.json, else the name of a preset.
PlanModel subject(const std::string& model) {
  if (std::filesystem::exists(std::filesystem::path(model) / "config.json"))
    return plan_model(load_model_config(model));
  if (std::filesystem::is_directory(model)) throw ConfigError(model + ": has no config.json");
  return plan_preset(model);
}

/// A device or machine with the plan in it.
struct Fit {
  std::string name;
  double bytes = 0, needed = 0, bytes_per_second = 0;
  double read_per_token = 0;  // of the slowest rank; of all ranks on one machine
  bool fits() const { return needed <= bytes; }
  double floor_ms() const { return 1e3 * read_per_token / bytes_per_second; }
};

Fit this_machine(const MemoryPlan& plan) {
  struct sysinfo info {};
  ::sysinfo(&info);
  Fit fit{"this machine", static_cast<double>(info.totalram) * info.mem_unit,
          static_cast<double>(plan.on_cpu()), 0, 0};
  constexpr std::size_t kSweep = std::size_t{256} << 20;
  fit.bytes_per_second =
      bench::ReadSweep(kSweep, static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))).rate();
  for (const RankPlan& rank : plan.ranks) fit.read_per_token += static_cast<double>(rank.read_per_token);
  return fit;
}

std::vector<Fit> fits_of(const MemoryPlan& plan) {
  std::vector<Fit> fits;
  for (const Device& device : kDevices) {
    fits.push_back({device.name, device.bytes, static_cast<double>(plan.largest().total()),
                    device.bytes_per_second, static_cast<double>(plan.largest().read_per_token)});
  }
  fits.push_back(this_machine(plan));
  return fits;
}

/// (what, bytes) of one rank, in the order of the table.
std::vector<std::pair<const char*, std::size_t>> rows_of(const RankPlan& rank) {
  return {{"experts", rank.weights.experts},
          {"attention", rank.weights.attention},
          {"norms_and_routers", rank.weights.small},
          {"embeddings", rank.weights.embeddings},
          {"output_embedding", rank.weights.head},
          {"kv_cache", rank.kv},
          {"scratch", rank.scratch},
          {"communication", rank.communication},
          {"total", rank.total()}};
}

ordered_json fit_json(const Fit& fit) {
  return {{"name", fit.name},
          {"bytes", fit.bytes},
          {"needed", fit.needed},
          {"fits", fit.fits()},
          {"gb_per_second", fit.bytes_per_second / 1e9},
          {"floor_ms_per_token", fit.floor_ms()}};
}

void print_json(const PlanModel& model, const PlanFlags& flags, const MemoryPlan& plan) {
  ordered_json ranks = ordered_json::array();
  for (const RankPlan& rank : plan.ranks) {
    ordered_json row;
    for (const auto& [what, bytes] : rows_of(rank)) row[what] = bytes;
    row["read_per_token"] = rank.read_per_token;
    ranks.push_back(std::move(row));
  }
  ordered_json fits = ordered_json::array();
  for (const Fit& fit : fits_of(plan)) fits.push_back(fit_json(fit));
  const ordered_json out = {{"model", model.config.name},
                            {"data_parallel", plan.mesh.data},
                            {"tensor_parallel", plan.mesh.model},
                            {"context", plan.context},
                            {"slots", flags.options.max_sequences},
                            {"kv_type", flags.options.kv_type == kernels::KvType::int8 ? "int8" : "int16"},
                            {"kv_bytes_per_token", plan.kv_per_position},
                            {"ranks", std::move(ranks)},
                            {"sent_per_token_and_rank", plan.sent_per_token},
                            {"loading_besides", plan.loading},
                            {"all_devices", plan.total()},
                            {"devices", std::move(fits)}};
  std::printf("%s\n", out.dump(1).c_str());
}

void print_table(const PlanModel& model, const PlanFlags& flags, const MemoryPlan& plan) {
  std::printf("%s: %d x %d devices (data x model), context %d, %d slots, %s cache of %zu bytes a token\n",
              model.config.name.c_str(), plan.mesh.data, plan.mesh.model, plan.context,
              flags.options.max_sequences, flags.options.kv_type == kernels::KvType::int8 ? "int8" : "int16",
              plan.kv_per_position);
  std::printf("\n%-20s %12s %12s\n", "GB on a device", "rank 0", plan.mesh.model > 1 ? "others" : "");
  const auto first = rows_of(plan.ranks.front()), last = rows_of(plan.ranks.back());
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::printf("%-20s %12.3f", first[i].first, static_cast<double>(first[i].second) / 1e9);
    if (plan.mesh.model > 1) std::printf(" %12.3f", static_cast<double>(last[i].second) / 1e9);
    std::printf("\n");
  }
  std::printf(
      "\nall devices %.3f GB; a rank sends %.3f MB a token; packing a checkpoint while loading maps "
      "%.3f GB besides\n",
      static_cast<double>(plan.total()) / 1e9, static_cast<double>(plan.sent_per_token) / 1e6,
      static_cast<double>(plan.loading) / 1e9);
  std::printf("\n%-18s %10s %10s %6s %10s %16s\n", "device", "GB", "needed", "fits", "GB/s",
              "ms a token, floor");
  for (const Fit& fit : fits_of(plan)) {
    std::printf("%-18s %10.1f %10.1f %6s %10.1f %16.2f\n", fit.name.c_str(), fit.bytes / 1e9,
                fit.needed / 1e9, fit.fits() ? "yes" : "no", fit.bytes_per_second / 1e9, fit.floor_ms());
  }
}

struct SpecRow {
  const TensorSpec& tensor;
  PartitionSpec spec;
  std::vector<std::int64_t> weight, scales;  // of one rank
};

std::vector<SpecRow> spec_rows(const std::vector<TensorSpec>& table, const Mesh& mesh) {
  std::vector<SpecRow> rows;
  for (const TensorSpec& tensor : table) {
    const PartitionSpec spec = partition_spec(tensor.path);
    rows.push_back(
        {tensor, spec, slice_shape(tensor.weight, spec, mesh), slice_shape(tensor.scales, spec, mesh)});
  }
  return rows;
}

void print_specs(const ModelConfig& config, const PlanFlags& flags) {
  check_mesh(config, flags.options.mesh);
  const std::vector<TensorSpec> table = tensor_table(config);
  ordered_json out = ordered_json::array();
  for (const SpecRow& row : spec_rows(table, flags.options.mesh)) {
    const char* dtype = row.tensor.quantized() ? "i8" : "f32";
    if (flags.json) {
      out.push_back({{"path", row.tensor.path},
                     {"dtype", dtype},
                     {"shape", row.tensor.weight},
                     {"spec", spec_text(row.spec)},
                     {"slice", row.weight},
                     {"scales", row.tensor.scales},
                     {"scales_slice", row.scales}});
      continue;
    }
    std::printf("%-58s %-4s %-20s %-22s %-20s%s\n", row.tensor.path.c_str(), dtype,
                shape_text(row.tensor.weight).c_str(), spec_text(row.spec).c_str(),
                shape_text(row.weight).c_str(),
                row.tensor.quantized() ? (" scales " + shape_text(row.scales)).c_str() : "");
  }
  if (flags.json) {
    std::printf("%s\n", out.dump(1).c_str());
  } else {
    std::printf("%zu tensors\n", table.size());
  }
}

int run_plan(PlanFlags& flags) {
  const PlanModel model = subject(flags.model);
  if (flags.specs) {
    print_specs(model.config, flags);
    return 0;
  }
  flags.options.kv_cache_bytes = flags.kv_cache_mb << 20;
  const MemoryPlan plan = plan_memory(model, flags.options);
  flags.json ? print_json(model, flags, plan) : print_table(model, flags, plan);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PlanFlags>();
  PlanOptions& options = flags->options;
  const EngineConfig defaults;
  options.max_sequences = defaults.slots, options.max_batch_tokens = defaults.step_tokens;
  CLI::App* command = app.add_subcommand("plan", "Memory of a model on each device of a mesh");
  command->add_option("model", flags->model, "Folder with config.json, or the name of a preset")->required();
  const auto add = [&](const char* name, int& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str()->check(CLI::Range(1, 65536));
  };
  add("--tensor-parallel", options.mesh.model, "Ranks that share one copy of the model");
  add("--data-parallel", options.mesh.data, "Copies");
  add("--slots", options.max_sequences, "Sequences running at once");
  add("--step-tokens", options.max_batch_tokens, "Most tokens in one step");
  add("--threads", options.threads, "Threads of a rank, if it runs on CPUs");
  command->add_option("--context", options.context, "Longest sequence; 0 = the model's own")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--kv-cache-mb", flags->kv_cache_mb,
                      "Keys and values of a group; 0 = room for slots x context");
  add_kv_type(*command, options.kv_type);
  command->add_flag("--specs", flags->specs, "List all tensors with their partition specs and slices");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace grokd::cli

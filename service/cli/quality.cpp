// grokd quality: what an int8 cache, expert pruning and the hash router change, beside the plain form.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/kv_ranges.h"
#include "engine/text_quality.h"
#include "engine/tokenizer.h"
#include "service/cli/commands.h"

namespace grokd::cli {

namespace {

struct QualityFlags {
  std::string model, text;
  std::vector<double> pruning{0.25, 0.5, 1};
  int single_steps = 128;
  bool json = false;
  RunnerOptions runner;
};

/// One lossy choice.
struct Variant {
  std::string name;
  ModelConfig config;
  kernels::KvType kv_type = kernels::KvType::int16;
};

ModelConfig plain_form(ModelConfig config) {
  config.expert_pruning_ratio = 0;
  return config;
}

/// The same weights with one expert a token, chosen by the hash.
ModelConfig hashed(ModelConfig config) {
  config.hash_router = true;
  config.num_selected_experts = 1;
  config.experts_per_group = config.num_experts % 2 == 0 ? 2 : 1;
  config.router_groups = config.num_experts / config.experts_per_group;
  return config;
}

std::vector<Variant> variants_of(const QualityFlags& flags, const ModelConfig& config) {
  std::vector<Variant> variants{{"plain", plain_form(config)}};
  if (std::filesystem::exists(std::filesystem::path(flags.model) / kKvRangesFile)) {
    variants.push_back({"kv int8", plain_form(config), kernels::KvType::int8});
  }
  if (config.hash_router) return variants;
  for (const double ratio : flags.pruning) {
    Variant pruned{"pruning " + nlohmann::json(ratio).dump(), config};
    pruned.config.expert_pruning_ratio = ratio;
    variants.push_back(std::move(pruned));
  }
  variants.push_back({"hash router", hashed(plain_form(config))});
  return variants;
}

nlohmann::ordered_json to_json(const std::string& name, const TextQuality& plain, const TextQuality& own) {
  return {{"name", name},
          {"perplexity", own.perplexity()},
          {"token_agreement", agreement(own, plain)},
          {"mean_logprob_difference", mean_difference(own, plain)},
          {"experts_skipped", own.skipped_share()},
          {"expert_imbalance", own.imbalance()},
          {"expert_loads", own.expert_loads},
          {"step_ms", own.step_seconds * 1e3},
          {"speed", plain.step_seconds / own.step_seconds}};
}

void print_row(const nlohmann::ordered_json& row) {
  std::printf("%-14s %12.5g %11.2f%% %14.5f %10.1f%% %11.2f %9.3f %7.2f\n",
              row["name"].get<std::string>().c_str(), row["perplexity"].get<double>(),
              100 * row["token_agreement"].get<double>(), row["mean_logprob_difference"].get<double>(),
              100 * row["experts_skipped"].get<double>(), row["expert_imbalance"].get<double>(),
              row["step_ms"].get<double>(), row["speed"].get<double>());
}

int run_quality(QualityFlags flags) {
  const ModelConfig config = load_model_config(flags.model);
  const auto ids = load_tokenizer(flags.model, config)->encode(read_text(flags.text));
  if (ids.size() < 2) throw ConfigError(flags.text + ": has fewer than two tokens");
  flags.runner.max_batch_tokens = 128;
  TextQuality plain;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!flags.json) {
    std::printf("%zu tokens\n%-14s %12s %12s %14s %11s %11s %9s %7s\n", ids.size(), "", "perplexity",
                "same token", "logprob diff.", "skipped", "imbalance", "step ms", "speed");
  }
  for (const Variant& variant : variants_of(flags, config)) {
    flags.runner.kv_type = variant.kv_type;
    const TextQuality own =
        measure_quality(flags.model, variant.config, flags.runner, ids, flags.single_steps);
    if (rows.empty()) plain = own;
    rows.push_back(to_json(variant.name, plain, own));
    if (!flags.json) print_row(rows.back());
  }
  if (flags.json)
    std::printf("%s\n", nlohmann::ordered_json{{"tokens", ids.size()}, {"variants", rows}}.dump().c_str());
  return 0;
}

}  // namespace

void add_quality(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<QualityFlags>();
  CLI::App* command = app.add_subcommand(
      "quality", "Perplexity and token agreement of an int8 cache, expert pruning and the hash router");
  command->add_option("--model", flags->model, "Folder of the model")->required();
  command->add_option("--text", flags->text, "File with the text")->required();
  command->add_option("--pruning", flags->pruning, "Pruning ratios to try")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--single-steps", flags->single_steps, "Steps of one token whose median time is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--backend", flags->runner.backend, "cpu or reference")->capture_default_str();
  command->add_option("--threads", flags->runner.cpu.threads, "Kernel threads; 0 = all cores");
  command->add_option("--isa", flags->runner.cpu.isa, "scalar, avx2 or avx512");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &exit_code] { exit_code = run_quality(*flags); });
}

}  // namespace grokd::cli

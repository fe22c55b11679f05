// grokd synth: a model of random weights, to try out machines and to measure speed.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "engine/bytes_tokenizer.h"
#include "engine/checkpoint/progress.h"
#include "engine/checkpoint/synthetic_model.h"
#include "service/cli/commands.h"

namespace grokd::cli {
namespace {

struct SynthFlags {
  std::string preset = "small", config, out, tokenizer;
  int layers = 0;
  std::uint64_t seed = 1;
};

void copy_tokenizer(const std::string& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing, error);
  if (error) throw ConfigError(from + ": cannot be copied to " + to.string() + ": " + error.message());
}

int run_synth(const SynthFlags& flags) {
  ModelConfig config = flags.config.empty() ? preset_config(flags.preset) : load_model_config(flags.config);
  config.name += "-synthetic";
  if (flags.layers > 0) config.num_layers = flags.layers;
  // Without a vocabulary of its own the model is usable with one token a byte.
  if (flags.tokenizer.empty()) config.tokenizer = kBytesTokenizer;
  write_synthetic_model(config, flags.out, flags.seed, print_progress("writing"));
  if (!flags.tokenizer.empty()) {
    copy_tokenizer(flags.tokenizer, std::filesystem::path(flags.out) / config.tokenizer);
  }
  return 0;
}

}  // namespace

void add_synth(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SynthFlags>();
  CLI::App* command = app.add_subcommand("synth", "Write a model of random weights");
  command->add_option("--preset", flags->preset, "grok-1, medium or small")->capture_default_str();
  command->add_option("--config", flags->config,
                      "Folder whose config.json has the shapes, instead of a preset");
  command->add_option("--layers", flags->layers, "Layers, if not the preset's own")
      ->check(CLI::Range(1, 4096));
  command->add_option("--out", flags->out, "Folder to write")->required();
  command->add_option("--seed", flags->seed, "Seed of the weights")->capture_default_str();
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "SentencePiece file to copy; without it a token is a byte")
      ->check(CLI::ExistingFile);
  command->callback([flags, &exit_code] { exit_code = run_synth(*flags); });
}

}  // namespace grokd::cli

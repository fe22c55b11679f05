// grokd pack: a checkpoint into files that a server starts from at the speed of the disk.

#include "engine/pack_model.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "engine/checkpoint/progress.h"
#include "service/cli/commands.h"

namespace grokd::cli {
namespace {

struct PackFlags {
  std::string model, preset, out;
  PackOptions options;
};

int run_pack(const PackFlags& flags) {
  const ModelConfig config =
      flags.preset.empty() ? load_model_config(flags.model) : preset_config(flags.preset);
  pack_model(flags.model, config, flags.out, flags.options, print_progress("packing"));
  std::printf("%s: packed for tensor parallel %d\n", flags.out.c_str(), flags.options.tensor_parallel);
  return 0;
}

}  // namespace

void add_pack(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PackFlags>();
  CLI::App* command =
      app.add_subcommand("pack", "Pack a checkpoint for fast starts; interrupted, it goes on");
  command->add_option("dir", flags->model, "Folder with config.json and checkpoint")->required();
  command->add_option("--out", flags->out, "Folder for the packed model")->required();
  command->add_option("--preset", flags->preset,
                      "Configuration for a folder without config.json, e.g. grok-1");
  command->add_option("--tensor-parallel", flags->options.tensor_parallel, "Ranks that will share the model")
      ->capture_default_str();
  command->add_option("--threads", flags->options.threads, "Blocks packed at once; 0 = all cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command->callback([flags, &exit_code] { exit_code = run_pack(*flags); });
}

}  // namespace grokd::cli

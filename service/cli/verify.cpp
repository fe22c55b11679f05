// grokd verify: reads a model's files whole and names what is wrong.

#include "engine/verify_model.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "engine/checkpoint/progress.h"
#include "service/cli/commands.h"

namespace grokd::cli {
namespace {

struct VerifyFlags {
  std::string model, preset;
  VerifyOptions options;
};

int run_verify(const VerifyFlags& flags) {
  const ModelConfig config =
      flags.preset.empty() ? load_model_config(flags.model) : preset_config(flags.preset);
  const VerifyReport report = verify_model(flags.model, config, flags.options, print_progress("verifying"));
  for (const std::string& problem : report.problems) std::fprintf(stderr, "grokd: %s\n", problem.c_str());
  std::printf("%s: %s, %zu bytes, %zu %s\n", flags.model.c_str(), report.form.c_str(), report.bytes,
              report.problems.size(), report.problems.size() == 1 ? "problem" : "problems");
  return report.problems.empty() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand("verify", "Check all of a model's files, packed or not");
  command->add_option("dir", flags->model, "Folder with config.json")->required();
  command->add_option("--preset", flags->preset,
                      "Configuration for a folder without config.json, e.g. grok-1");
  command->add_flag("--structure-only", flags->options.structure_only,
                    "Names, shapes and lengths, without reading the contents");
  command->add_option("--threads", flags->options.threads, "0 = all cores")->check(CLI::Range(0, 1024));
  command->callback([flags, &exit_code] { exit_code = run_verify(*flags); });
}

}  // namespace grokd::cli

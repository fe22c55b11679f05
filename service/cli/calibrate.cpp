// grokd calibrate: ranges of an int8 KV cache, measured on a text.

#include "engine/calibrate_kv.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "engine/checkpoint/progress.h"
#include "engine/model_files.h"
#include "engine/tokenizer.h"
#include "service/cli/commands.h"

namespace grokd::cli {

namespace {

struct CalibrateFlags {
  std::string model, text;
  RunnerOptions runner;
};

int run_calibrate(const CalibrateFlags& flags) {
  const ModelConfig config = load_model_config(flags.model);
  const std::vector<TokenId> ids = load_tokenizer(flags.model, config)->encode(read_text(flags.text));
  if (ids.empty()) throw ConfigError(flags.text + ": is empty");
  const KvRangeTable table = calibrate_kv(flags.model, config, flags.runner, ids, print_progress());
  save_kv_ranges(table, open_model_files(flags.model, config)->fingerprint(), flags.model);
  std::printf("ranges of %zu key and value channels from %zu tokens\n",
              table.keys.size() + table.values.size(), ids.size());
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command = app.add_subcommand("calibrate", "Measure the ranges for --kv-type int8 on a text");
  command->add_option("--model", flags->model, "Folder of the model; kv-int8.json is written there")
      ->required();
  command->add_option("--text", flags->text, "File with text like what will be served")->required();
  command->add_option("--backend", flags->runner.backend, "cpu or reference")->capture_default_str();
  command->add_option("--threads", flags->runner.cpu.threads, "Kernel threads; 0 = all cores");
  command->add_option("--isa", flags->runner.cpu.isa, "scalar, avx2 or avx512");
  command->callback([flags, &exit_code] { exit_code = run_calibrate(*flags); });
}

}  // namespace grokd::cli

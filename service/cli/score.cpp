// grokd score: perplexity of a text, from the same log-probabilities that an echo request returns.

#include "engine/score.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/progress.h"
#include "engine/model_runner.h"
#include "engine/tokenizer.h"
#include "service/cli/commands.h"

namespace grokd::cli {

namespace {

struct ScoreFlags {
  std::string model, text;
  bool json = false;
  RunnerOptions runner;
};

int run_score(const ScoreFlags& flags) {
  const ModelConfig config = load_model_config(flags.model);
  const auto tokenizer = load_tokenizer(flags.model, config);
  const std::vector<TokenId> ids = tokenizer->encode(read_text(flags.text));
  RunnerOptions options = flags.runner;
  options.max_sequences = 1;
  EngineConfig engine_config;
  engine_config.slots = 1;
  engine_config.special = special_tokens(config);
  Engine engine(load_model(flags.model, config, options, print_progress()), *tokenizer, engine_config);
  const Score result = score(engine, ids, config.sequence_len);
  if (flags.json) {
    const nlohmann::ordered_json out{{"tokens", ids.size()},
                                     {"scored", result.logprobs.size()},
                                     {"windows", result.windows},
                                     {"logprob_sum", result.sum()},
                                     {"perplexity", result.perplexity()},
                                     {"token_logprobs", result.logprobs}};
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("%zu tokens in %d windows, log-probability %.17g, perplexity %.17g\n", ids.size(),
                result.windows, result.sum(), result.perplexity());
  }
  return 0;
}

}  // namespace

void add_score(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ScoreFlags>();
  CLI::App* command = app.add_subcommand("score", "Perplexity of a text");
  command->add_option("--model", flags->model, "Folder of the model")->required();
  command->add_option("--text", flags->text, "File with the text")->required();
  command->add_flag("--json", flags->json, "Print one JSON object with the log-probability of every token");
  command->add_option("--backend", flags->runner.backend, "cpu, cuda, auto or reference")->capture_default_str();
  command->add_option("--threads", flags->runner.cpu.threads, "Kernel threads; 0 = all cores");
  command
      ->add_option("--tensor-parallel", flags->runner.tensor_parallel,
                   "Ranks that share the model and the threads")
      ->capture_default_str();
  command->add_flag("--force-threads", flags->runner.cpu.force_threads, "Allow more threads than cores");
  command->add_option("--isa", flags->runner.cpu.isa, "scalar, avx2 or avx512");
  add_kv_type(*command, flags->runner.kv_type);
  command->callback([flags, &exit_code] { exit_code = run_score(*flags); });
}

}  // namespace grokd::cli

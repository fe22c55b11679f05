// grokd generate: one prompt, its answer streamed to the terminal.

#include "engine/generate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/checkpoint/progress.h"
#include "engine/model_runner.h"
#include "engine/tokenizer.h"
#include "service/cli/commands.h"
#include "service/cli/ranks.h"

namespace grokd::cli {

namespace {

struct GenerateFlags {
  std::string model, preset, prompt;
  int max_tokens = 128;
  double temperature = 1, top_p = 1;
  std::optional<std::int64_t> seed;
  std::vector<std::string> stop;
  bool json = false, ignore_eos = false;
  RunnerOptions runner;
};

constexpr std::chrono::seconds kCollectiveTimeout{10};

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

Request make_request(const GenerateFlags& flags, const ModelConfig& config, const Tokenizer& tokenizer) {
  Request request;
  request.id = "generate";
  request.prompt = tokenizer.encode(flags.prompt);
  if (config.add_bos) request.prompt.insert(request.prompt.begin(), config.bos_token);
  const int room = config.sequence_len - static_cast<int>(request.prompt.size());
  if (request.prompt.empty()) throw ConfigError("--prompt: the prompt has no tokens");
  if (room <= 0) {
    throw ConfigError("--prompt: " + std::to_string(request.prompt.size()) +
                      " tokens do not fit a context of " + std::to_string(config.sequence_len));
  }
  request.max_tokens = std::min(flags.max_tokens, room);
  request.sampling.temperature = flags.temperature;
  request.sampling.top_p = flags.top_p;
  request.sampling.seed = flags.seed ? static_cast<std::uint64_t>(*flags.seed) : random_seed();
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  return request;
}

std::string_view finish_name(FinishReason reason) {
  return reason == FinishReason::stop ? "stop" : reason == FinishReason::length ? "length" : "error";
}

void print_json(const Generated& answer, std::uint64_t seed) {
  const auto& times = answer.last.times;
  auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const nlohmann::ordered_json out{
      {"text", answer.text},
      {"token_ids", answer.ids},
      {"finish_reason", finish_name(answer.last.finish)},
      {"prompt_tokens", answer.last.prompt_tokens},
      {"completion_tokens", answer.last.completion_tokens},
      {"seed", static_cast<std::int64_t>(seed)},
      {"time_to_first_token_seconds", seconds(times.first_token - times.submitted)},
      {"total_seconds", seconds(times.finished - times.submitted)}};
  std::printf("%s\n", out.dump().c_str());
}

int run_generate(const GenerateFlags& flags) {
  const ModelConfig config =
      flags.preset.empty() ? load_model_config(flags.model) : preset_config(flags.preset);
  RunnerOptions options = flags.runner;
  options.max_sequences = 1;
  options.processes = join_ranks(kCollectiveTimeout);
  if (follows(options)) {
    follow_model(flags.model, config, options);
    return 0;
  }
  const auto tokenizer = load_tokenizer(flags.model, config);
  Request request = make_request(flags, config, *tokenizer);
  const std::uint64_t seed = request.sampling.seed;
  EngineConfig engine_config;
  engine_config.slots = 1;
  engine_config.step_tokens = options.max_batch_tokens;
  engine_config.special = special_tokens(config);
  Engine engine(load_model(flags.model, config, options, print_progress()), *tokenizer, engine_config);
  const auto write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const Generated answer = generate(engine, std::move(request), flags.json ? nullptr : OnText(write));
  if (answer.last.finish == FinishReason::error) throw std::runtime_error(answer.last.error);
  if (flags.json) {
    print_json(answer, seed);
  } else {
    std::printf("\n");
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Continue one prompt on the terminal");
  command->add_option("--model", flags->model, "Folder with config.json, tokenizer and checkpoint")
      ->required();
  command->add_option("--preset", flags->preset,
                      "Configuration for a folder without config.json, e.g. grok-1");
  command->add_option("--prompt", flags->prompt, "Text to continue")->required();
  command->add_option("--max-tokens", flags->max_tokens, "Most tokens to generate")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--temperature", flags->temperature, "0 = greedy")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 2.0));
  command->add_option("--top-p", flags->top_p, "Nucleus mass")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", flags->seed, "Seed of the draw; random if not given");
  command->add_option("--stop", flags->stop, "Text that ends the answer; may be given several times");
  command->add_flag("--ignore-eos", flags->ignore_eos, "Go on after end-of-sequence");
  command->add_flag("--json", flags->json, "Print one JSON object instead of streaming text");
  command->add_option("--backend", flags->runner.backend, "cpu, cuda, auto or reference")->capture_default_str();
  add_kv_type(*command, flags->runner.kv_type);
  command->add_option("--threads", flags->runner.cpu.threads, "Kernel threads; 0 = all cores");
  command
      ->add_option("--tensor-parallel", flags->runner.tensor_parallel,
                   "Ranks that share the model and the threads")
      ->capture_default_str();
  command->add_flag("--force-threads", flags->runner.cpu.force_threads, "Allow more threads than cores");
  command->add_option("--isa", flags->runner.cpu.isa,
                      "scalar, avx2 or avx512; default: the best of this machine");
  command->callback([flags, &exit_code] { exit_code = run_generate(*flags); });
}

}  // namespace grokd::cli

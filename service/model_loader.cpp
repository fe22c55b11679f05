#include "service/model_loader.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <utility>
#include <variant>

#include "api/error.h"
#include "engine/model_files.h"
#include "engine/model_runner.h"
#include "service/metrics.h"

namespace grokd {
namespace {

/// One short answer before the first client's: touches every weight once, and finds a model that gives no
/// numbers. Throws when it does.
void warm_up(const LoadedModel& model, const ModelConfig& config) {
  constexpr int kMostPromptTokens = 16;  // less than a page: nothing stays in the prefix cache
  constexpr int kAnswerTokens = 2;
  const int room = model.engine->limits().context - kAnswerTokens;
  if (room < 1) return;
  Request request;
  request.prompt.assign(static_cast<std::size_t>(std::min(room, kMostPromptTokens)), config.eos_token);
  request.max_tokens = kAnswerTokens;
  request.ignore_eos = true;
  std::promise<FinishReason> ended;
  auto outcome = model.engine->submit(std::move(request), [&ended](RequestOutput&& piece) {
    if (piece.finish != FinishReason::none) ended.set_value(piece.finish);
  });
  if (std::holds_alternative<Refused>(outcome) || ended.get_future().get() == FinishReason::error)
    throw ConfigError("the model fails on its first tokens: are its files whole? (grokd verify)");
}

/// A group that has lost a process can't go on: whoever launched it launches it again.
FailureObserver on_failure(Server& server) {
  if (!server.config().runner.processes) return {};
  return [&server](const std::string& what) {
    std::fprintf(stderr, "grokd: %s\n", what.c_str());
    server.stop_after_failure();
  };
}

/// The threads are shared out over the replicas.
RunnerOptions options_of_replica(const ServerConfig& config) {
  RunnerOptions options = config.runner;
  if (config.data_parallel == 1) return options;
  if (options.processes) throw ConfigError("--data-parallel needs ranks that are threads, not processes");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = options.cpu.threads > 0 ? options.cpu.threads : cores;
  options.cpu.threads = std::max(1, threads / config.data_parallel);
  return options;
}

std::vector<std::unique_ptr<Engine>> load_engines(Server& server, const Tokenizer& tokenizer) {
  const ServerConfig& config = server.config();
  ModelHost& host = server.host();
  EngineConfig engine = config.engine;
  engine.special = special_tokens(host.config());
  const RunnerOptions options = options_of_replica(config);
  std::vector<std::unique_ptr<Engine>> engines;
  const ProgressSink progress = [&](const LoadProgress& p) {
    if (p.bytes_total == 0) return;
    const double part = static_cast<double>(p.bytes_done) / static_cast<double>(p.bytes_total);
    host.set_progress(0.99 * (static_cast<double>(engines.size()) + part) / config.data_parallel);
  };
  for (int i = 0; i < config.data_parallel; ++i) {
    engines.push_back(std::make_unique<Engine>(
        load_model(config.model_dir, host.config(), options, progress), tokenizer, engine,
        [&server](const StepRecord& step) { server.metrics().observe_step(step); }, on_failure(server)));
  }
  return engines;
}

std::unique_ptr<LoadedModel> load(Server& server) {
  const ServerConfig& config = server.config();
  ModelHost& host = server.host();
  auto model = std::make_unique<LoadedModel>();
  model->tokenizer = load_tokenizer(config.model_dir, host.config());
  model->fingerprint = fingerprint_of(config.model_dir, host.config(), config.runner);
  model->grammars = std::make_unique<GrammarCompiler>(*model->tokenizer, host.config().vocab_size,
                                                      std::vector<TokenId>{host.config().eos_token});
  model->engine = std::make_unique<Replicas>(load_engines(server, *model->tokenizer));
  for (int i = 0; i < config.data_parallel; ++i) warm_up(*model, host.config());
  return model;
}

}  // namespace

std::string fingerprint_of(const std::string& model_dir, const ModelConfig& config,
                           const RunnerOptions& options) {
  return "grokd-" GROKD_VERSION "-" + open_model_files(model_dir, config)->fingerprint() + "-" +
         options.backend + (options.kv_type == kernels::KvType::int8 ? "-kv8" : "");
}

namespace {

/// A format of the operator's own: docs/api.md has its keys.
api::ChatTemplate read_chat_template(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw ConfigError(file + ": cannot be read");
  try {
    return api::parse_chat_template(text.str(), std::filesystem::path(file).stem().string());
  } catch (const api::ApiError& error) {
    throw ConfigError(file + ": " + error.what());
  }
}

}  // namespace

api::ChatTemplate choose_chat_template(const std::string& name, const ModelConfig& config) {
  if (name.empty() && config.chat.present) {
    api::ChatTemplate own;
    own.name = config.name;
    own.merge_system = config.chat.system.empty();
    own.system = own.merge_system ? "{content}\n\n" : config.chat.system;
    own.user = config.chat.user;
    own.assistant = config.chat.assistant;
    own.generation_prompt = config.chat.generation_prompt;
    own.stop_token_ids = config.chat.stop_token_ids;
    return own;
  }
  const std::string own = config.chat_format.empty() ? "plain" : config.chat_format;
  const api::ChatTemplate* known = api::find_chat_template(name.empty() ? own : name);
  if (known) {
    api::ChatTemplate format = *known;
    format.stop_token_ids.insert(format.stop_token_ids.end(), config.more_eos.begin(), config.more_eos.end());
    return format;
  }
  if (std::filesystem::is_regular_file(name)) return read_chat_template(name);
  std::string names;
  for (const api::ChatTemplate& one : api::built_in_chat_templates())
    names += (names.empty() ? "" : ", ") + one.name;
  throw ConfigError("--chat-template " + name + " is neither a file nor one of " + names);
}

std::thread load_in_background(Server& server) {
  return std::thread([&server] {
    try {
      server.host().set_loaded(load(server));
      std::fprintf(stderr, "grokd: %s is ready\n", server.host().id().c_str());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "grokd: %s\n", error.what());
      server.stop(1);
    }
  });
}

}  // namespace grokd

// grokd serve: the HTTP server.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "service/cli/commands.h"
#include "service/cli/ranks.h"
#include "service/crash_handler.h"
#include "service/log.h"
#include "service/model_loader.h"
#include "service/server.h"

namespace grokd::cli {
namespace {

struct ServeFlags {
  ServerConfig config;
  std::string preset;
  std::size_t kv_cache_mb = 0;
};

/// A flag in seconds for a setting kept in milliseconds.
void add_seconds(CLI::App& app, const std::string& name, Milliseconds& value, const std::string& help) {
  const auto set = [&value](const double& seconds) {
    value = Milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(value.count()) / 1000);
  app.add_option_function<double>(name, set, help)->check(CLI::NonNegativeNumber)->default_str(text);
}

template <typename T>
CLI::Option* add(CLI::App& app, const std::string& name, T& value, const std::string& help) {
  return app.add_option(name, value, help)->capture_default_str();
}

void add_address_flags(CLI::App& app, ServerConfig& config) {
  add(app, "--host", config.host, "address to listen on");
  add(app, "--port", config.port, "port; 0 = any free one")->check(CLI::Range(0, 65535));
  add(app, "--metrics-port", config.metrics_port,
      "/metrics, /livez and /readyz without a key on a port of their own, and /metrics only there; 0 = any "
      "free one; -1 = none")
      ->check(CLI::Range(-1, 65535));
  auto* certificate = app.add_option("--tls-certificate", config.tls_certificate,
                                     "PEM file with the certificate chain: HTTPS; read again on SIGHUP");
  auto* key = app.add_option("--tls-private-key", config.tls_private_key, "PEM file with its private key");
  certificate->needs(key);
  key->needs(certificate);
  add(app, "--io-threads", config.io_threads, "threads for sockets; 0 = by the number of cores");
  add(app, "--workers", config.workers, "threads that encode prompts; 0 = by the number of cores");
}

void add_model_flags(CLI::App& app, ServeFlags& flags) {
  ServerConfig& config = flags.config;
  add(app, "--model", config.model_dir, "folder with config.json")->required();
  add(app, "--model-id", config.model_id, "served name; default: the name in config.json");
  add(app, "--alias", config.aliases, "another name requests may use (repeatable)");
  add(app, "--chat-template", config.chat_template,
      "format of chat prompts, by name or file; default: the model's own, else plain");
  add(app, "--preset", flags.preset, "configuration for a folder without config.json, e.g. grok-1");
  app.add_flag("--strict-chat", config.strict_chat,
               "indent lines of messages that would open a turn of the template");
  add(app, "--backend", config.runner.backend, "cpu, cuda, auto (cuda where it can be used) or reference")
      ->check(CLI::IsMember({"cpu", "cuda", "auto", "reference"}));
  add(app, "--threads", config.runner.cpu.threads, "threads of the CPU backend; 0 = all cores");
  app.add_flag("--force-threads", config.runner.cpu.force_threads, "allow more threads than cores");
  add(app, "--data-parallel", config.data_parallel,
      "copies of the model that share out requests and threads; each has --slots and --kv-cache-mb of its "
      "own")
      ->check(CLI::Range(1, 64));
  add(app, "--tensor-parallel", config.runner.tensor_parallel,
      "ranks that share the model and the threads; 0 = as it is packed, else 1");
  add(app, "--isa", config.runner.cpu.isa, "scalar, avx2 or avx512; default: the best of this machine");
  add(app, "--context", config.runner.context, "longest sequence in tokens; 0 = the model's own")
      ->envname("GROK_MAX_SEQ_LEN");
  add(app, "--kv-cache-mb", flags.kv_cache_mb, "memory for keys and values; 0 = room for slots x context")
      ->envname("GROK_KV_CACHE_BUFFER_MB");
  add_kv_type(app, config.runner.kv_type);
}

void add_engine_flags(CLI::App& app, ServerConfig& config) {
  EngineConfig& engine = config.engine;
  add(app, "--slots", engine.slots, "sequences running at once")->check(CLI::Range(1, 4096));
  add(app, "--step-tokens", engine.step_tokens, "most tokens in one step")->check(CLI::Range(1, 65536));
  app.add_option_function<double>(
         "--itl-target-ms", [&engine](const double& ms) { engine.step.itl_target_seconds = ms / 1000; },
         "prompts fed beside decodes may lengthen a step to so much, or to 1.5 x what the decodes take "
         "alone; 0 = no bound")
      ->check(CLI::NonNegativeNumber)
      ->default_str("50");
  app.add_flag("--prefix-cache,!--no-prefix-cache", engine.step.prefix_cache,
               "prompts that begin alike share pages of the cache (the default)");
  engine.step.speculate = true;
  app.add_flag("--speculation,!--no-speculation", engine.step.speculate,
               "check tokens that the text suggests several in a step, where that is faster (the default)");
  add(app, "--max-waiting", engine.max_waiting, "requests waiting for a slot")->check(CLI::NonNegativeNumber);
  add(app, "--max-waiting-tokens", engine.max_waiting_tokens, "their prompt tokens")
      ->check(CLI::PositiveNumber);
  add(app, "--max-n", config.requests.max_n, "most choices a prompt (n)")->check(CLI::Range(1, 128));
  add(app, "--chat-max-tokens", config.chat_max_tokens,
      "length of a chat answer when the request does not say")
      ->check(CLI::PositiveNumber);
  add_seconds(app, "--default-timeout", config.default_timeout, "deadline of a whole request in s; 0 = none");
}

void add_access_flags(CLI::App& app, ServeFlags& flags) {
  add(app, "--api-key-file", flags.config.api_key_file,
      "file with one key a line; without it no key is needed; read again on SIGHUP");
  add(app, "--key-max-requests", flags.config.key_limits.max_requests,
      "requests of one key at once; 0 = no limit; a key's line may say max-requests=N")
      ->check(CLI::NonNegativeNumber);
  add(app, "--key-tokens-per-minute", flags.config.key_limits.tokens_per_minute,
      "prompt and answer tokens of one key; 0 = no limit; a key's line may say tokens-per-minute=N")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--load-without-key", flags.config.load_without_key, "/load needs no key");
  add(app, "--cors-origin", flags.config.cors_origins,
      "origin of web pages that may call (repeatable; * = any)");
}

void add_limit_flags(CLI::App& app, HttpLimits& http) {
  add(app, "--max-header-bytes", http.max_header_bytes, "request header")->check(CLI::PositiveNumber);
  add(app, "--max-target-bytes", http.max_target_bytes, "request target")->check(CLI::PositiveNumber);
  add(app, "--max-body-bytes", http.max_body_bytes, "request body")->check(CLI::PositiveNumber);
  add(app, "--max-connections", http.max_connections, "open connections")->check(CLI::PositiveNumber);
  add(app, "--max-output-bytes", http.max_output_bytes, "output waiting for a slow reader")
      ->check(CLI::PositiveNumber);
  add(app, "--min-body-rate", http.min_body_rate, "bytes a second of a body that comes slowly");
  add_seconds(app, "--header-timeout", http.header_timeout, "for a request's header, in s");
  add_seconds(app, "--body-timeout", http.body_timeout,
              "for a request's body, in s, unless it comes fast enough");
  add_seconds(app, "--idle-timeout", http.idle_timeout, "between two requests of a connection, in s");
  add_seconds(app, "--slow-reader-timeout", http.slow_reader_timeout,
              "for a client that does not read, in s");
  add_seconds(app, "--ping-interval", http.ping_interval, "between comment lines of a silent stream, in s");
  add_seconds(app, "--probe-interval", http.probe_interval,
              "the same after the client closed its sending side, in s");
  add_seconds(app, "--plain-close-grace", http.plain_close_grace,
              "how long a plain answer goes on after that, in s");
}

void add_life_cycle_flags(CLI::App& app, ServerConfig& config) {
  add_seconds(app, "--drain-delay", config.drain_delay,
              "after SIGTERM, new requests are still served so long, in s");
  add_seconds(app, "--drain-timeout", config.drain_timeout, "then running requests may go on so long, in s");
  add_seconds(app, "--stall-limit", config.stall_limit,
              "/livez turns red after so long without a step, in s");
  add_seconds(app, "--collective-timeout", config.collective_timeout,
              "under mpirun, a rank that does not answer for so long is lost, in s");
  const auto set_names = [&config](const std::string& names) { config.vllm_metrics = names == "vllm"; };
  app.add_option_function<std::string>("--metrics-compat", set_names, "metrics also under the names of: vllm")
      ->check(CLI::IsMember({"vllm"}));
  add(app, "--otlp-endpoint", config.otlp_endpoint,
      "collector of traces, http://HOST[:PORT][/PATH] (OTLP, JSON); default: none");
  add(app, "--log-level", config.log_level, "debug, info, warn, error or off");
}

/// A connection is a file descriptor, and the usual soft limit of 1024 is below the limit of connections.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Under mpirun a SIGTERM is soon followed by SIGKILL: open streams get their error event in between.
void drain_within(ServerConfig& config, Milliseconds grace) {
  const Milliseconds left = std::max(grace - Milliseconds(700), Milliseconds(200));
  config.drain_delay = std::min(config.drain_delay, left);
  config.drain_timeout = std::min(config.drain_timeout, left - config.drain_delay);
}

/// Settles what "auto" means before anything is opened.
void settle_backend(ServerConfig& config) {
  const BackendChoice choice = choose_backend(config.runner.backend);
  config.runner.backend = choice.backend;
  if (choice.missing.empty()) return;
  Log(parse_log_level(config.log_level))
      .event(LogLevel::warn, "the CPU computes", {{"reason", choice.missing}});
}

int serve(ServeFlags& flags) {
  ServerConfig& config = flags.config;
  if (!config.api_key_file.empty()) config.api_keys = read_api_keys(config.api_key_file);
  config.runner.kv_cache_bytes = flags.kv_cache_mb << 20;
  config.runner.on_pin_refused = [](const std::string& what) {
    std::fprintf(stderr, "grokd: the key-value cache may be paged out: %s\n", what.c_str());
  };
  config.runner.max_sequences = config.engine.slots;
  config.runner.max_batch_tokens = config.engine.step_tokens;
  settle_backend(config);
  allow_many_files();
  install_crash_handler();
  const ModelConfig model =
      flags.preset.empty() ? load_model_config(config.model_dir) : preset_config(flags.preset);
  config.runner.processes = join_ranks(std::max(config.collective_timeout, Milliseconds(100)));
  if (follows(config.runner)) {
    follow_model(config.model_dir, model, config.runner);
    return 0;
  }
  if (config.runner.processes) drain_within(config, kernels::launcher_grace());
  Server server(config, model, choose_chat_template(config.chat_template, model));
  server.start();
  server.drain_on_signals();
  server.reload_on_hangup();
  server.report_to(Supervisor::from_environment());
  std::printf("grokd: listening on %s\n", server.address().c_str());
  std::fflush(stdout);
  std::thread loader = load_in_background(server);
  const int exit_code = server.wait();
  if (!server.host().loaded() && exit_code == 0) std::_Exit(0);  // told to end while a model was being read
  loader.join();
  return exit_code;
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP");
  add_address_flags(*command, flags->config);
  add_model_flags(*command, *flags);
  add_engine_flags(*command, flags->config);
  add_access_flags(*command, *flags);
  add_limit_flags(*command, flags->config.http);
  add_life_cycle_flags(*command, flags->config);
  command->callback([flags, &exit_code] { exit_code = serve(*flags); });
}

}  // namespace grokd::cli

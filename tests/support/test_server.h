#pragma once
// A whole server on a free port, with a scripted model in it.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/server.h"
#include "tests/support/fake_runner.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/http_client.h"

namespace grokd::test {

struct ServerSetup {
  ServerConfig config = quick_config();
  std::vector<std::string> pieces = {" of", " course", "Hello", " world", "<|user|>", "<|assistant|>"};
  Script script = {};  // default: tokens that depend on everything before them
  std::function<void(const Batch&)> before_step = {};  // engine thread
  int context = 1024;
  bool load = true;  // false: the model stays away, as while it loads

  static ServerConfig quick_config() {
    ServerConfig config;
    config.port = 0;
    config.log_level = "off";
    config.io_threads = 2;
    config.workers = 2;
    config.http.linger = Milliseconds(200);
    return config;
  }
};

class TestServer {
 public:
  explicit TestServer(ServerSetup setup = {})
      : tokenizer_(setup.pieces), server_(setup.config, model_config(setup), chat_template()) {
    server_.start();
    if (setup.load) load(setup);
  }

  void load(const ServerSetup& setup) {
    auto model = std::make_unique<LoadedModel>();
    model->tokenizer = std::make_unique<FakeTokenizer>(setup.pieces);
    model->fingerprint = "grokd-test";
    model->grammars = std::make_unique<GrammarCompiler>(*model->tokenizer, tokenizer_.vocab_size(),
                                                        std::vector<TokenId>{2});
    RunnerLimits limits = FakeRunner::small_limits(tokenizer_.vocab_size());
    limits.context = setup.context;
    auto runner = std::make_unique<FakeRunner>(
        limits,
        setup.script ? setup.script : hash_of_history(tokenizer_.vocab_size(), FakeTokenizer::kFirstPiece));
    runner->before_step = setup.before_step;
    model->engine = std::make_unique<Replicas>(
        std::make_unique<Engine>(std::move(runner), *model->tokenizer, setup.config.engine));
    server_.host().set_loaded(std::move(model));
  }

  int port() const { return server_.port(); }
  Server& server() { return server_; }
  const FakeTokenizer& tokenizer() const { return tokenizer_; }
  EngineStats stats() { return server_.host().loaded()->engine->stats(); }

  /// True once no sequence runs or waits.
  bool becomes_idle(int timeout_ms = 5'000) {
    return eventually([this] { return stats().running + stats().waiting == 0; }, timeout_ms);
  }
  /// The value of a metric line that begins so, -1 if there is none.
  double metric(const std::string& line_start) {
    const std::string text = get(port(), "/metrics").body;
    const std::size_t at = text.find("\n" + line_start);
    if (at == std::string::npos) return -1;
    const std::size_t end = text.find('\n', at + 1);
    return std::stod(text.substr(text.rfind(' ', end), end));
  }

  template <typename Condition>
  static bool eventually(Condition condition, int timeout_ms = 5'000) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

 private:
  static ModelConfig model_config(const ServerSetup& setup) {
    ModelConfig config;
    config.name = "fake";
    config.sequence_len = setup.context;
    return config;
  }
  static api::ChatTemplate chat_template() {
    api::ChatTemplate format;
    format.name = "fake";
    format.system = "{content}\n";
    format.user = "<|user|>{content}\n";
    format.assistant = "<|assistant|>{content}{eos}";
    format.generation_prompt = "<|assistant|>";
    return format;
  }

  FakeTokenizer tokenizer_;
  Server server_;
};

/// A script slow enough to be interrupted: this long a step.
inline std::function<void(const Batch&)> pause_each_step(int milliseconds) {
  return
      [milliseconds](const Batch&) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
}

}  // namespace grokd::test

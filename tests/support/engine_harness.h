#pragma once
// An engine over the fake runner and tokenizer, and answers collected from its sinks.

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/engine.h"
#include "tests/support/fake_runner.h"
#include "tests/support/fake_tokenizer.h"

namespace grokd::test {

/// What a sink was given; any thread may wait for its end.
class Answer {
 public:
  OutputSink sink() {
    return [state = state_](RequestOutput&& piece) {
      const std::lock_guard lock(state->mutex);
      state->pieces.push_back(std::move(piece));
      state->changed.notify_all();
    };
  }
  /// All pieces; throws if the request does not end.
  const std::vector<RequestOutput>& wait() {
    wait_until(
        [this] { return !state_->pieces.empty() && state_->pieces.back().finish != FinishReason::none; });
    return state_->pieces;
  }
  void wait_for_pieces(std::size_t count) {
    wait_until([&] { return state_->pieces.size() >= count; });
  }
  RequestOutput last() { return wait().back(); }
  std::string text() {
    std::string text;
    for (const auto& piece : wait()) text += piece.text;
    return text;
  }
  std::vector<TokenId> ids() {
    std::vector<TokenId> ids;
    for (const auto& piece : wait()) ids.insert(ids.end(), piece.new_ids.begin(), piece.new_ids.end());
    return ids;
  }
  std::vector<OutputToken> tokens() {
    std::vector<OutputToken> tokens;
    for (const auto& piece : wait()) tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    return tokens;
  }
  std::string token_bytes() {
    std::string bytes;
    for (const auto& token : tokens()) bytes += token.bytes;
    return bytes;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<RequestOutput> pieces;
  };
  template <class Condition>
  void wait_until(Condition condition) {
    std::unique_lock lock(state_->mutex);
    if (!state_->changed.wait_for(lock, std::chrono::seconds(60), condition)) {
      throw std::runtime_error("an answer did not come");
    }
  }
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Holds the engine thread before each step until it is let go.
class Gate {
 public:
  /// Engine thread.
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [this] { return open_ || permits_ > 0; })) {
      throw std::runtime_error("a test did not open its gate");
    }
    if (!open_) --permits_;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void let_steps(int count) {
    const std::lock_guard lock(mutex_);
    permits_ += count;
    changed_.notify_all();
  }
  /// Until the engine thread stands before its n-th step, counted from 1.
  void wait_for_step(int step) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return arrived_ >= step; })) {
      throw std::runtime_error("a step did not come");
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, permits_ = 0;
  bool open_ = false;
};

struct EngineHarness {
  struct Options {
    Script script;
    std::vector<std::string> pieces = {};
    EngineConfig config = {};
    std::function<void(RunnerLimits&)> limit = {};
    std::function<void(const Batch&)> before_step = {};
    StepObserver observer = {};
  };

  explicit EngineHarness(Options options)
      : tokenizer(std::move(options.pieces)),
        engine(make_runner(options), tokenizer, options.config, options.observer) {}

  /// Submits; the request must be accepted.
  RequestHandle submit(Request request, Answer& answer) {
    auto result = engine.submit(std::move(request), answer.sink());
    if (std::holds_alternative<Refused>(result)) throw std::runtime_error("a request was refused");
    return std::move(std::get<RequestHandle>(result));
  }
  Answer run(Request request) {
    Answer answer;
    const auto handle = submit(std::move(request), answer);
    answer.wait();
    return answer;
  }
  /// Until nothing runs or waits; throws if that does not come.
  EngineStats wait_until_idle() const {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (Clock::now() < deadline) {
      const auto stats = engine.stats();
      if (stats.running == 0 && stats.waiting == 0 && stats.kv_pages_used == 0) return stats;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw std::runtime_error("the engine did not become idle");
  }

  FakeTokenizer tokenizer;
  Engine engine;

 private:
  std::unique_ptr<ModelRunner> make_runner(const Options& options) const {
    auto limits = FakeRunner::small_limits(tokenizer.vocab_size());
    if (options.limit) options.limit(limits);
    auto runner = std::make_unique<FakeRunner>(limits, options.script);
    runner->before_step = options.before_step;
    return runner;
  }
};

inline Request request_for(std::string_view prompt, int max_tokens) {
  Request request;
  request.prompt = FakeTokenizer::bytes_of(prompt);
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace grokd::test

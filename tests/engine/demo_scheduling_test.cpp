// What tests with a simulated clock and a fake runner hold for thousands of scenarios, once on the demo
// model.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/support/engine_harness.h"

using namespace grokd;
using namespace grokd::test;

namespace {

constexpr int kSlots = 4;

struct DemoEngine {
  DemoEngine()
      : config(load_model_config(GROKD_DEMO_MODEL)), tokenizer(load_tokenizer(GROKD_DEMO_MODEL, config)) {
    RunnerOptions options;
    options.cpu.threads = 2;
    options.cpu.force_threads = true;
    options.max_sequences = kSlots;
    options.max_batch_tokens = 128;
    EngineConfig engine_config;
    engine_config.slots = kSlots;
    engine_config.step_tokens = 128;
    engine_config.max_waiting = 100000;
    engine_config.max_waiting_tokens = 1 << 30;
    engine_config.special = special_tokens(config);
    engine =
        std::make_unique<Engine>(load_model(GROKD_DEMO_MODEL, config, options, {}), *tokenizer, engine_config,
                                 [this](const StepRecord& step) { records.push_back(step); });
  }
  RequestHandle submit(Request request, Answer& answer) {
    return std::move(std::get<RequestHandle>(engine->submit(std::move(request), answer.sink())));
  }
  void wait_until(const std::function<bool(const EngineStats&)>& reached) const {
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (!reached(engine->stats())) {
      if (Clock::now() > end) throw std::runtime_error("the engine does not get there");
      std::this_thread::yield();
    }
  }
  void wait_until_empty() const {
    wait_until([](const EngineStats& s) { return s.running + s.waiting + s.kv_pages_used == 0; });
  }

  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<StepRecord> records;  // engine thread; read when it is idle
  std::unique_ptr<Engine> engine;
};

Request request_of(std::mt19937& random, int prompt, int max_tokens) {
  Request request;
  for (int i = 0; i < prompt; ++i) request.prompt.push_back(4 + static_cast<TokenId>(random() % 4000));
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

/// Fills all slots with answers that are long enough to outlast what a test queues behind them.
std::vector<RequestHandle> occupy(DemoEngine& demo, std::vector<Answer>& answers, int tier) {
  std::mt19937 random(7);
  std::vector<RequestHandle> handles;
  for (Answer& answer : answers) {
    Request request = request_of(random, 8, 480);
    request.tier = tier;
    handles.push_back(demo.submit(std::move(request), answer));
  }
  demo.wait_until([](const EngineStats& s) { return s.running == kSlots && s.waiting == 0; });
  return handles;
}

}  // namespace

TEST_CASE("demo model: what waits starts by tier and then by what is due first, and all of it ends") {
  DemoEngine demo;
  std::vector<Answer> long_ones(kSlots), queued(24);
  auto handles = occupy(demo, long_ones, 0);
  std::mt19937 random(11);
  std::vector<std::pair<int, int>> order;  // tier, when due
  const auto now = Clock::now();
  for (int i = 0; i < 24; ++i) {
    Request request = request_of(random, 4 + static_cast<int>(random() % 60), 4);
    request.tier = 1 + i % 2;
    const int due = 30 + (i * 7) % 24;
    request.deadline = now + std::chrono::seconds(due);
    order.emplace_back(request.tier, due);
    handles.push_back(demo.submit(std::move(request), queued[static_cast<std::size_t>(i)]));
  }
  demo.wait_until([](const EngineStats& s) { return s.waiting == 24 || s.running < kSlots; });
  REQUIRE(demo.engine->stats().waiting == 24);  // nothing has started yet
  std::vector<std::pair<Clock::time_point, std::pair<int, int>>> started;
  for (std::size_t i = 0; i < queued.size(); ++i) {
    const RequestOutput last = queued[i].last();
    CHECK(last.finish == FinishReason::length);
    CHECK(!last.timed_out);
    started.emplace_back(last.times.admitted, order[i]);
  }
  std::sort(started.begin(), started.end());
  for (std::size_t i = 1; i < started.size(); ++i) {
    if (started[i].first > started[i - 1].first) CHECK(started[i].second > started[i - 1].second);
  }
  for (Answer& answer : long_ones) CHECK(answer.last().completion_tokens == 480);
  demo.wait_until_empty();
}

TEST_CASE("demo model: a priority request takes a slot at once, and who paused loses nothing") {
  DemoEngine demo;
  std::vector<Answer> long_ones(kSlots), undisturbed(kSlots);
  Answer urgent;
  auto handles = occupy(demo, long_ones, 1);
  std::mt19937 random(3);
  Request request = request_of(random, 100, 8);
  request.tier = 0;
  handles.push_back(demo.submit(std::move(request), urgent));
  const RequestOutput first = urgent.last();
  CHECK(first.finish == FinishReason::length);
  for (Answer& answer : long_ones) CHECK(answer.last().times.finished > first.times.finished);
  CHECK(demo.engine->stats().preemptions == 1);
  handles = occupy(demo, undisturbed, 1);
  for (std::size_t i = 0; i < long_ones.size(); ++i) CHECK(undisturbed[i].ids() == long_ones[i].ids());
  demo.wait_until_empty();
}

TEST_CASE("demo model: beside decodes a long prompt goes on in every step, and they go on beside it") {
  DemoEngine demo;
  std::vector<Answer> decodes(kSlots - 1);
  Answer prompt;
  std::mt19937 random(5);
  std::vector<RequestHandle> handles;
  for (Answer& answer : decodes) handles.push_back(demo.submit(request_of(random, 4, 400), answer));
  for (Answer& answer : decodes) answer.wait_for_pieces(1);
  handles.push_back(demo.submit(request_of(random, 500, 1), prompt));
  CHECK(prompt.last().finish == FinishReason::length);
  for (Answer& answer : decodes) CHECK(answer.last().completion_tokens == 400);
  demo.wait_until_empty();
  int mixed = 0;
  for (const StepRecord& step : demo.records) mixed += step.prefill_tokens > 0 && step.sequences == kSlots;
  CHECK(mixed > 1);
  MESSAGE("step-time model: off by " << 100 * demo.engine->stats().step_prediction_error << " % in the mean");
}

TEST_CASE("demo model: thousands of requests of all tiers, let go at random moments, leave nothing behind") {
  DemoEngine demo;
  std::mt19937 random(1);
  const auto question = [] {
    std::mt19937 same(42);
    return request_of(same, 90, 12);
  };
  Answer before, after;
  {
    const auto handle = demo.submit(question(), before);
    before.wait();
  }
  std::vector<std::pair<RequestHandle, Answer>> live;
  int whole = 0;
  for (int i = 0; i < 3000; ++i) {
    Request request =
        request_of(random, 1 + static_cast<int>(random() % 80), 1 + static_cast<int>(random() % 30));
    request.tier = static_cast<int>(random() % 3);
    Answer answer;
    auto handle = demo.submit(std::move(request), answer);
    live.emplace_back(std::move(handle), answer);
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    while (live.size() > 12) {
      const auto at = static_cast<std::ptrdiff_t>(random() % live.size());
      { const RequestHandle dropped = std::move(live[static_cast<std::size_t>(at)].first); }
      const FinishReason reason = live[static_cast<std::size_t>(at)].second.last().finish;
      CHECK((reason == FinishReason::cancelled || reason == FinishReason::length));
      whole += reason == FinishReason::length;
      live.erase(live.begin() + at);
    }
  }
  live.clear();
  demo.wait_until_empty();
  CHECK(whole < 3000);
  {
    const auto handle = demo.submit(question(), after);
    after.wait();
  }
  CHECK(after.ids() == before.ids());
}

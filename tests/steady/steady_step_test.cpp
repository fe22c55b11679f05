// A step of the engine in full swing takes no memory. A program of its own: it counts every allocation.
#include <doctest/doctest.h>

#include <atomic>
#include <semaphore>

#include "engine/engine.h"
#include "tests/support/count_allocations.h"

namespace grokd {
namespace {

constexpr int kSequences = 4, kAnswer = 1016, kWarmUp = 10, kSteps = 1000;

Request long_request(int index) {
  Request request;
  request.prompt = {100 + index, 200, 300};
  request.max_tokens = kAnswer;
  request.ignore_eos = true;
  request.sampling.temperature = index % 2 == 0 ? 0 : 0.8;
  request.sampling.top_p = 0.9;
  request.sampling.seed = 5;
  return request;
}

/// Allocations at the first and at the last of the steps that count.
struct Window {
  std::atomic<int> steps{0};
  std::atomic<long> at_start{0}, at_end{0};
  void observe(const StepRecord& step) {
    if (step.prefill_tokens > 0 || step.sequences < kSequences) return;
    const int n = ++steps;
    if (n == kWarmUp) at_start = test::allocations.load();
    if (n == kWarmUp + kSteps) at_end = test::allocations.load();
  }
};

TEST_CASE("a thousand steady steps allocate nothing") {
  const ModelConfig config = load_model_config(GROKD_DEMO_MODEL);
  const auto tokenizer = load_tokenizer(GROKD_DEMO_MODEL, config);
  RunnerOptions options;
  options.max_sequences = kSequences;
  options.max_batch_tokens = 64;
  EngineConfig engine_config;
  engine_config.slots = kSequences;
  engine_config.step_tokens = 64;
  engine_config.special = special_tokens(config);
  Window window;
  std::counting_semaphore<kSequences> ended{0};
  Engine engine(load_model(GROKD_DEMO_MODEL, config, options, {}), *tokenizer, engine_config,
                [&](const StepRecord& step) { window.observe(step); });
  std::vector<RequestHandle> handles;
  for (int i = 0; i < kSequences; ++i) {
    auto submitted = engine.submit(long_request(i), [&](RequestOutput&& piece) {
      if (piece.finish != FinishReason::none) ended.release();
    });
    handles.push_back(std::get<RequestHandle>(std::move(submitted)));
  }
  for (int i = 0; i < kSequences; ++i) ended.acquire();
  REQUIRE(window.steps >= kWarmUp + kSteps);
  CHECK(window.at_end - window.at_start == 0);
}

}  // namespace
}  // namespace grokd

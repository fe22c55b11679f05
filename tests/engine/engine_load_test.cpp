// The engine under many threads and many requests at once.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "tests/support/engine_harness.h"

namespace grokd {
namespace {

using test::Answer;
using test::EngineHarness;
using test::FakeTokenizer;
using test::request_for;

Request random_request(std::mt19937& random) {
  Request request;
  for (std::size_t i = 1 + random() % 120; i > 0; --i) {
    request.prompt.push_back(static_cast<TokenId>(4 + random() % 256));
  }
  request.max_tokens = 1 + static_cast<int>(random() % 50);
  request.sampling.seed = random();
  request.sampling.choice = static_cast<std::uint32_t>(random() % 4);
  request.sampling.repetition_penalty = random() % 3 == 0 ? 1.5 : 1;
  if (random() % 3 == 0) request.stop = {"ab", "c"};
  return request;
}

test::Script ending_hash() { return test::hash_of_history(260, 2); }  // now and then end-of-sequence

struct Result {
  std::string text;
  std::vector<TokenId> ids;
  FinishReason finish;
  bool operator==(const Result&) const = default;
};

Result result_of(Answer& answer) { return {answer.text(), answer.ids(), answer.last().finish}; }

TEST_CASE("an answer does not depend on its neighbours, the size of a step or the slots") {
  constexpr std::uint32_t kRequests = 60;
  std::vector<Result> alone;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    EngineHarness harness({.script = ending_hash()});
    std::mt19937 random(i);
    auto answer = harness.run(random_request(random));
    alone.push_back(result_of(answer));
  }
  for (const auto& [slots, step_tokens] : {std::pair{16, 256}, std::pair{3, 5}, std::pair{7, 64}}) {
    EngineHarness harness({.script = ending_hash(), .config = {.slots = slots, .step_tokens = step_tokens}});
    std::vector<Answer> answers(kRequests);
    std::vector<RequestHandle> handles;
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      std::mt19937 random(i);
      handles.push_back(harness.submit(random_request(random), answers[i]));
    }
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      CAPTURE(i);
      CHECK(result_of(answers[i]) == alone[i]);
    }
  }
}

TEST_CASE("requests from many threads, many let go early, leave no slot or page behind") {
  EngineHarness harness({.script = ending_hash(),
                         .config = {.slots = 6, .step_tokens = 40, .max_waiting = 20},
                         .limit = [](RunnerLimits& limits) { limits.kv_pages = 12; }});
  std::atomic<int> accepted{0}, refused{0}, ended{0};
  const auto work = [&](std::uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 500; ++i) {
      auto result = harness.engine.submit(random_request(random), [&](RequestOutput&& piece) {
        if (piece.finish != FinishReason::none) ++ended;
      });
      if (std::holds_alternative<Refused>(result)) {
        ++refused;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      ++accepted;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  const auto stats = harness.wait_until_idle();
  CHECK_FALSE(stats.failed);
  CHECK(ended == accepted);
  CHECK(accepted + refused == 2000);
  CHECK(accepted > 100);
}

TEST_CASE("short requests get through beside a long prompt") {
  EngineHarness harness({.script = test::answer_with(std::vector<TokenId>(1000, FakeTokenizer::byte('a'))),
                         .config = {.slots = 2, .step_tokens = 16}});
  Answer long_answer;
  const auto handle = harness.submit(request_for(std::string(1000, 'x'), 2), long_answer);
  Answer first;
  const auto short_handle = harness.submit(request_for("y", 20), first);
  CHECK(first.text() == std::string(20, 'a'));
  CHECK(long_answer.text() == "aa");
}

}  // namespace
}  // namespace grokd

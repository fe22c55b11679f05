#include "engine/replicas.h"

#include <doctest/doctest.h>

#include "tests/support/engine_harness.h"

namespace grokd {
namespace {

using namespace test;

/// Three replicas whose engines stand before each step until the gate opens.
struct Rig {
  FakeTokenizer tokenizer{{}};
  Gate gate;
  Replicas replicas;
  std::vector<std::unique_ptr<Answer>> answers;
  std::vector<RequestHandle> handles;

  explicit Rig(EngineConfig config = {}) : replicas(engines(config)) {}
  ~Rig() { gate.open(); }

  std::vector<std::unique_ptr<Engine>> engines(const EngineConfig& config) {
    std::vector<std::unique_ptr<Engine>> all;
    for (int i = 0; i < 3; ++i) {
      auto runner = std::make_unique<FakeRunner>(
          FakeRunner::small_limits(tokenizer.vocab_size()),
          answer_with(FakeTokenizer::bytes_of(std::string(1, static_cast<char>('a' + i)))));
      runner->before_step = [this](const Batch&) { gate.pass(); };
      all.push_back(std::make_unique<Engine>(std::move(runner), tokenizer, config));
    }
    return all;
  }
  /// False: refused.
  bool submit(const std::string& prompt) {
    answers.push_back(std::make_unique<Answer>());
    auto outcome = replicas.submit(request_for(prompt, 5), answers.back()->sink());
    if (std::holds_alternative<Refused>(outcome)) return false;
    handles.push_back(std::move(std::get<RequestHandle>(outcome)));
    return true;
  }
  /// How many answers came from each replica: "a" from the first, "b", "c".
  std::vector<int> shares() {
    gate.open();
    std::vector<int> counts(3);
    for (const auto& answer : answers) ++counts[static_cast<std::size_t>(answer->text().at(0) - 'a')];
    return counts;
  }
};

TEST_CASE("requests that have nothing in common are spread evenly over the replicas") {
  Rig rig;
  for (int i = 0; i < 12; ++i) REQUIRE(rig.submit(std::string(100, static_cast<char>('d' + i))));
  CHECK(rig.replicas.stats().running + rig.replicas.stats().waiting == 12);
  CHECK(rig.shares() == std::vector{4, 4, 4});
}

TEST_CASE("prompts that begin with the same page go to the same replica, until it has much more to do") {
  Rig rig({.slots = 16});
  for (int i = 0; i < 4; ++i) REQUIRE(rig.submit(std::string(64, 'x') + std::to_string(i)));
  auto counts = rig.shares();
  std::sort(counts.begin(), counts.end());
  CHECK(counts == std::vector{0, 0, 4});

  Rig crowded({.slots = 16});
  for (int i = 0; i < 15; ++i) REQUIRE(crowded.submit(std::string(64, 'x') + std::to_string(i)));
  counts = crowded.shares();
  std::sort(counts.begin(), counts.end());
  CHECK(counts.front() >= 2);
}

TEST_CASE("a request is refused only when every replica is full") {
  Rig rig({.slots = 1, .max_waiting = 1});
  int accepted = 0;
  for (int i = 0; i < 10; ++i) accepted += rig.submit(std::string(64, 'x'));
  CHECK(accepted == 6);
  rig.answers.resize(6);  // the others were refused
  CHECK(rig.shares() == std::vector{2, 2, 2});
}

TEST_CASE("replicas that drain refuse new requests and end what they have") {
  Rig rig;
  REQUIRE(rig.submit("x"));
  rig.replicas.drain();
  CHECK_FALSE(rig.submit("y"));
  rig.answers.pop_back();
  CHECK(rig.shares() == std::vector{1, 0, 0});
}

TEST_CASE("a cancelled request of a replica ends, and the sums of all replicas go back to nothing") {
  Rig rig;
  for (int i = 0; i < 3; ++i) REQUIRE(rig.submit(std::string(10, static_cast<char>('d' + i))));
  rig.handles.clear();
  rig.gate.open();
  for (const auto& answer : rig.answers) CHECK(answer->last().finish != FinishReason::none);
  while (rig.replicas.stats().kv_pages_used > 0 || rig.replicas.stats().running > 0)
    std::this_thread::yield();
  CHECK(rig.replicas.stats().slots == 3 * EngineConfig{}.slots);
}

}  // namespace
}  // namespace grokd

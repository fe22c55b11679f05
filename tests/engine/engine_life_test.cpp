// The engine when requests fail, are let go or come too many at once, and what it shows of itself.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "tests/support/engine_harness.h"

namespace grokd {
namespace {

using test::Answer;
using test::answer_with;
using test::EngineHarness;
using test::FakeTokenizer;
using test::Gate;
using test::request_for;
using Ids = std::vector<TokenId>;

Ids bytes(std::string_view text) { return FakeTokenizer::bytes_of(text); }

// ---- faults ----

TEST_CASE("a row of NaN ends that request alone") {
  const TokenId bad = FakeTokenizer::byte('!');
  const auto script = [bad](std::span<const TokenId> history, const kernels::SamplingRow& row) {
    if (history[0] == bad && row.draw == 2) return test::kNotFinite;
    return row.draw < 5 ? FakeTokenizer::byte('a') : TokenId{2};
  };
  EngineHarness harness({.script = script});
  Answer good, poisoned;
  const auto first = harness.submit(request_for("x", 10), good);
  const auto second = harness.submit(request_for("!", 10), poisoned);
  CHECK(good.text() == "aaaaa");
  CHECK(poisoned.text() == "aa");
  CHECK(poisoned.last().finish == FinishReason::error);
  CHECK(poisoned.last().repeatable_error);
  CHECK_FALSE(poisoned.last().error.empty());
  CHECK_FALSE(harness.engine.stats().failed);
  CHECK(harness.run(request_for("x", 10)).text() == "aaaaa");
}

TEST_CASE("a runner that throws fails all requests and the engine takes no more") {
  Gate gate;
  int steps = 0;
  EngineHarness harness({.script = answer_with(Ids(100, FakeTokenizer::byte('a'))),
                         .config = {.slots = 1},
                         .before_step = [&](const Batch&) {
                           gate.pass();
                           if (++steps == 3) throw std::runtime_error("the device is gone");
                         }});
  Answer running, waiting;
  const auto first = harness.submit(request_for("x", 50), running);
  gate.wait_for_step(1);
  const auto second = harness.submit(request_for("y", 50), waiting);
  gate.open();
  for (auto* answer : {&running, &waiting}) {
    CHECK(answer->last().finish == FinishReason::error);
    CHECK(answer->last().error == "the device is gone");
    CHECK_FALSE(answer->last().repeatable_error);
  }
  CHECK(running.text() == "aa");
  CHECK(harness.wait_until_idle().failed);
  const auto refused = harness.engine.submit(request_for("z", 1), [](RequestOutput&&) {});
  REQUIRE(std::holds_alternative<Refused>(refused));
  CHECK(std::get<Refused>(refused).reason == Rejection::failed);
}

TEST_CASE("a request that cannot run ends with an error and harms nobody") {
  EngineHarness harness(
      {.script = answer_with(bytes("ok")), .limit = [](RunnerLimits& limits) { limits.kv_pages = 4; }});
  auto unknown = request_for("x", 1);
  unknown.prompt = {99999};
  auto negative = request_for("x", 1);
  negative.prompt = {5, -1};
  Request requests[] = {request_for("", 4), request_for("x", 1024), request_for("x", 400), std::move(unknown),
                        std::move(negative)};
  for (auto& request : requests) {
    auto answer = harness.run(std::move(request));
    CHECK(answer.last().finish == FinishReason::error);
    CHECK_FALSE(answer.last().error.empty());
  }
  CHECK(harness.run(request_for("x", 10)).text() == "ok");
}

TEST_CASE("an engine that is destroyed ends what is left as cancelled") {
  Answer running, waiting;
  std::vector<RequestHandle> handles;
  {
    EngineHarness harness(
        {.script = answer_with(Ids(900, FakeTokenizer::byte('a'))),
         .config = {.slots = 1},
         .before_step = [](const Batch&) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }});
    handles.push_back(harness.submit(request_for("x", 900), running));
    handles.push_back(harness.submit(request_for("y", 50), waiting));
    running.wait_for_pieces(1);
  }
  CHECK(running.last().finish == FinishReason::cancelled);
  CHECK(waiting.last().finish == FinishReason::cancelled);
}

// ---- cancelling ----

TEST_CASE("a request cancelled while it decodes frees its slot and pages at the next step") {
  Gate gate;
  EngineHarness harness({.script = answer_with(Ids(900, FakeTokenizer::byte('a'))),
                         .config = {.slots = 1},
                         .before_step = [&](const Batch&) { gate.pass(); }});
  Answer first, second;
  auto handle = harness.submit(request_for("x", 900), first);
  gate.let_steps(4);
  gate.wait_for_step(5);
  CHECK(harness.engine.stats().kv_pages_used == 15);
  const auto next = harness.submit(request_for("y", 1), second);
  handle.cancel();
  gate.let_steps(1);      // the step that was under way
  gate.wait_for_step(6);  // the next one already runs the second request
  CHECK(first.last().finish == FinishReason::cancelled);
  CHECK(first.last().completion_tokens == 5);
  CHECK(harness.engine.stats().kv_pages_used == 1);
  gate.open();
  CHECK(second.text() == "a");
  CHECK(harness.wait_until_idle().kv_pages_used == 0);
}

TEST_CASE("a request cancelled in prefill feeds no further chunk") {
  Gate gate;
  EngineHarness harness({.script = answer_with(bytes("a")),
                         .config = {.slots = 1, .step_tokens = 32},
                         .before_step = [&](const Batch&) { gate.pass(); }});
  Answer answer;
  auto handle = harness.submit(request_for(std::string(500, 'x'), 10), answer);
  gate.wait_for_step(1);
  gate.let_steps(1);
  gate.wait_for_step(2);
  handle = RequestHandle();
  gate.open();
  CHECK(answer.last().finish == FinishReason::cancelled);
  const auto stats = harness.wait_until_idle();
  CHECK(stats.steps == 2);
  CHECK(stats.prompt_tokens == 64);
}

TEST_CASE("a request cancelled in the queue never runs") {
  Gate gate;
  EngineHarness harness({.script = answer_with(bytes("abc")),
                         .config = {.slots = 1},
                         .before_step = [&](const Batch&) { gate.pass(); }});
  Answer running, waiting;
  const auto first = harness.submit(request_for("x", 10), running);
  gate.wait_for_step(1);
  { const auto second = harness.submit(request_for("y", 10), waiting); }
  gate.let_steps(1);
  CHECK(waiting.last().finish == FinishReason::cancelled);
  gate.open();
  CHECK(running.text() == "abc");
  CHECK(harness.wait_until_idle().prompt_tokens == 1);
}

// ---- limits of the queue ----

TEST_CASE("of 40 requests at once 4 run, 8 wait and 28 are refused with a time to come back") {
  Gate gate;
  EngineHarness harness({.script = answer_with(bytes("a")),
                         .config = {.slots = 4, .max_waiting = 8},
                         .before_step = [&](const Batch&) { gate.pass(); }});
  std::vector<Answer> answers(40);
  std::vector<RequestHandle> handles;
  int refused = 0;
  for (auto& answer : answers) {
    auto result = harness.engine.submit(request_for("x", 10), answer.sink());
    if (auto* handle = std::get_if<RequestHandle>(&result)) {
      handles.push_back(std::move(*handle));
    } else {
      CHECK(std::get<Refused>(result).reason == Rejection::queue_full);
      CHECK(std::get<Refused>(result).retry_after_seconds >= 1);
      ++refused;
    }
  }
  CHECK(refused == 28);
  gate.open();
  for (std::size_t i = 0; i < 12; ++i) CHECK(answers[i].text() == "a");
}

TEST_CASE("waiting prompts are limited by their tokens, but one always may wait") {
  Gate gate;
  EngineHarness harness({.script = answer_with(bytes("a")),
                         .config = {.slots = 1, .max_waiting = 100, .max_waiting_tokens = 250},
                         .before_step = [&](const Batch&) { gate.pass(); }});
  std::vector<Answer> answers(5);
  std::vector<RequestHandle> handles;
  handles.push_back(harness.submit(request_for("x", 2), answers[0]));
  gate.wait_for_step(1);
  gate.let_steps(1);  // so that the first one is known to run
  gate.wait_for_step(2);
  handles.push_back(harness.submit(request_for(std::string(300, 'x'), 1), answers[1]));
  auto result = harness.engine.submit(request_for("y", 1), answers[2].sink());
  CHECK(std::holds_alternative<Refused>(result));
  CHECK(harness.engine.stats().waiting_tokens == 300);
  gate.open();
  CHECK(answers[1].text() == "a");
}

TEST_CASE("a draining engine finishes what it has and takes no more") {
  Gate gate;
  EngineHarness harness(
      {.script = answer_with(bytes("abc")), .before_step = [&](const Batch&) { gate.pass(); }});
  Answer answer;
  const auto handle = harness.submit(request_for("x", 10), answer);
  harness.engine.drain();
  const auto refused = harness.engine.submit(request_for("y", 1), [](RequestOutput&&) {});
  REQUIRE(std::holds_alternative<Refused>(refused));
  CHECK(std::get<Refused>(refused).reason == Rejection::draining);
  gate.open();
  CHECK(answer.text() == "abc");
}

// ---- state seen from outside ----

TEST_CASE("the heartbeat grows stale only while work is pending") {
  Gate gate;
  EngineHarness harness(
      {.script = answer_with(bytes("a")), .before_step = [&](const Batch&) { gate.pass(); }});
  CHECK(harness.engine.stats().seconds_since_progress == 0);
  Answer answer;
  const auto handle = harness.submit(request_for("x", 5), answer);
  gate.wait_for_step(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(harness.engine.stats().seconds_since_progress >= 0.03);
  gate.open();
  answer.wait();
  harness.wait_until_idle();
  while (harness.engine.stats().seconds_since_progress > 0) std::this_thread::yield();
  CHECK(harness.engine.stats().seconds_since_progress == 0);
}

TEST_CASE("an idle engine uses no processor time") {
  EngineHarness harness({.script = answer_with(bytes("a"))});
  harness.run(request_for("x", 5));
  harness.wait_until_idle();
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(used() - before < 0.05);
}

TEST_CASE("counters and records add up to the tokens fed and drawn") {
  int tokens = 0, prefill = 0;
  EngineHarness harness({.script = answer_with(bytes("hello")),
                         .config = {.step_tokens = 32},
                         .observer = [&](const StepRecord& record) {
                           tokens += record.tokens;
                           prefill += record.prefill_tokens;
                         }});
  auto answer = harness.run(request_for(std::string(100, 'p'), 10));
  const auto stats = harness.wait_until_idle();
  CHECK(stats.prompt_tokens == 100);
  CHECK(stats.generated_tokens == 6);
  CHECK(stats.steps == 9);
  CHECK(prefill == 100);
  CHECK(tokens == 105);
  const auto times = answer.last().times;
  CHECK(times.submitted <= times.admitted);
  CHECK(times.admitted <= times.first_token);
  CHECK(times.first_token <= times.finished);
}

}  // namespace
}  // namespace grokd

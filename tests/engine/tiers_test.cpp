// Who goes first, who has to make room, and that nobody's answer shows it.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/scheduler_rig.h"

namespace grokd {
namespace {

using test::FakeTokenizer;
using test::SchedulerRig;
using Ids = std::vector<TokenId>;

enum Tier { kPriority = 0, kDefault = 1, kFlex = 2 };

struct Rig : SchedulerRig {
  explicit Rig(SchedulerLimits limits)
      : SchedulerRig(limits, test::hash_of_history(FakeTokenizer().vocab_size())) {}
  using SchedulerRig::add;
  test::Flag add(TokenId name, Tier tier, int prompt, int max_tokens) {
    Request request;
    request.prompt = Ids(static_cast<std::size_t>(prompt), name);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.tier = tier;
    return add(std::move(request));
  }
  /// The answer of a request that nobody disturbs.
  Ids undisturbed(TokenId name, int prompt, int max_tokens) const {
    Rig alone({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
    alone.add(name, kDefault, prompt, max_tokens);
    alone.finish(10000);
    return alone.ended.at(0).ids;
  }
};

using Rows = std::vector<std::pair<TokenId, int>>;

TEST_CASE("a higher tier takes the slot at the next step and the other goes on where it was") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  rig.add(11, kDefault, 5, 20);
  for (int turn = 0; turn < 4; ++turn) rig.turn();
  rig.add(12, kPriority, 3, 2);
  rig.turn();
  CHECK(rig.rows == Rows{{12, 3}});
  CHECK(rig.scheduler.waiting() == 1);
  rig.turn();
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}});  // no row is computed again
  REQUIRE(rig.finish(100));
  CHECK(rig.order() == Ids{12, 11});
  CHECK(rig.ended[1].ids == rig.undisturbed(11, 5, 20));
  CHECK(rig.scheduler.preemptions() == 1);
}

TEST_CASE("a sequence of its own tier is never disturbed, whatever the priority number") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  rig.add(11, kDefault, 5, 20);
  rig.turn();
  Request request;
  request.prompt = {12};
  request.max_tokens = 1;
  request.priority = -100;
  rig.add(std::move(request));
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}});
}

TEST_CASE("where pages run out the lower tier gives up its own and computes them again later") {
  Rig rig({.slots = 2, .step_tokens = 32, .logit_rows = 16, .pages = 4});
  rig.add(11, kFlex, 60, 100);  // 3 pages
  for (int turn = 0; turn < 30; ++turn) rig.turn();
  rig.add(12, kPriority, 100, 60);  // 3 pages
  rig.turn();
  CHECK(rig.rows == Rows{{12, 32}});
  CHECK(rig.scheduler.pages().used() == 3);
  REQUIRE(rig.finish(1000));
  CHECK(rig.order() == Ids{12, 11});
  CHECK(rig.ended[1].ids == rig.undisturbed(11, 60, 100));
}

TEST_CASE("a higher tier that would not fit even so disturbs nobody") {
  Rig rig({.slots = 2, .step_tokens = 32, .logit_rows = 16, .pages = 4});
  rig.add(10, kPriority, 60, 100);  // 3 pages
  rig.add(11, kFlex, 10, 40);       // 1 page
  for (int turn = 0; turn < 5; ++turn) rig.turn();
  rig.add(12, kPriority, 100, 60);  // 3 pages
  rig.turn();
  CHECK(rig.rows == Rows{{10, 1}, {11, 1}});
  CHECK(rig.scheduler.preemptions() == 0);
  REQUIRE(rig.finish(1000));
}

TEST_CASE("within a tier what is due first goes first, and what has no deadline is due after a minute") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  rig.add(10, kDefault, 1, 1);
  rig.turn();
  const auto add = [&](TokenId name, double timeout) {
    Request request;
    request.prompt = {name};
    request.max_tokens = 1;
    if (timeout > 0) request.deadline = rig.now + std::chrono::milliseconds(static_cast<int>(timeout * 1e3));
    rig.add(std::move(request));
  };
  rig.add(11, kDefault, 1, 30);
  rig.turn();
  add(12, 0);
  add(13, 300);
  add(14, 20);
  add(15, 5);
  rig.advance(1);
  add(16, 300);
  REQUIRE(rig.finish(1000));
  CHECK(rig.order() == Ids{10, 11, 15, 14, 12, 13, 16});
}

TEST_CASE("a paused sequence can be cancelled and can time out") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  const auto flag = rig.add(11, kFlex, 5, 20);
  rig.turn();
  rig.add(12, kDefault, 5, 50);
  rig.turn();
  CHECK(rig.scheduler.pages().used() == 2);
  *flag = true;
  rig.turn();
  REQUIRE(rig.ended.size() == 1);
  CHECK(rig.ended[0].last.finish == FinishReason::cancelled);
  CHECK(rig.scheduler.pages().used() == 1);
  CHECK(rig.scheduler.waiting() == 0);
}

/// One random scenario: all that must hold after each turn and at the end.
void run_scenario(std::uint32_t seed) {
  std::mt19937 random(seed);
  const int slots = 1 + static_cast<int>(random() % 5);
  const SchedulerLimits limits{.slots = slots,
                               .step_tokens = slots + 1 + static_cast<int>(random() % 40),
                               .logit_rows = slots + static_cast<int>(random() % 4),
                               .pages = 6 + static_cast<int>(random() % 12)};
  Rig rig(limits);
  rig.seconds = [](const StepWork& work) { return 1e-3 + 1e-4 * work.tokens; };
  struct Asked {
    QueuePlace place;
    bool plain = true;  // neither cancelled nor given a deadline
    int started = -1;   // turn of its first token
  };
  std::map<TokenId, Asked> asked;
  std::vector<std::pair<TokenId, test::Flag>> flags;
  int turn = 0;
  const int requests = 3 + static_cast<int>(random() % 30);
  const bool one_size = random() % 2 == 0;
  TokenId name = 300;
  for (; turn < 6000 && (rig.scheduler.busy() || name < 300 + requests); ++turn) {
    if (name < 300 + requests && random() % 4 == 0) {
      Request request;
      request.prompt = Ids(1 + (one_size ? 30 : random() % 200), name);
      request.max_tokens = 1 + static_cast<int>(random() % 60);
      request.ignore_eos = true;
      request.tier = static_cast<int>(random() % 3);
      request.priority = static_cast<int>(random() % 3);
      request.sampling.seed = seed;
      Asked& entry = asked[name];
      entry.place = {request.tier, request.priority, {}, static_cast<std::uint64_t>(name)};
      if (random() % 8 == 0) {
        request.deadline = rig.now + std::chrono::milliseconds(random() % 200);
        entry.plain = false;
      }
      const auto note = [&entry, &turn](const RequestOutput& piece) {
        if (entry.started < 0 && piece.completion_tokens > 0) entry.started = turn;
      };
      flags.emplace_back(name, rig.add(std::move(request), note));
      ++name;
    }
    if (!flags.empty() && random() % 40 == 0) {
      const auto& [which, flag] = flags[random() % flags.size()];
      *flag = true;
      asked[which].plain = false;
    }
    rig.turn();
    REQUIRE(rig.scheduler.running() <= slots);
  }
  REQUIRE_FALSE(rig.scheduler.busy());  // nobody starves once no more come
  CHECK(rig.scheduler.pages().used() == 0);
  CHECK(rig.scheduler.waiting_tokens() == 0);
  CHECK(rig.ended.size() == asked.size());
  for (const auto& one : rig.ended) {
    if (!asked[one.name].plain) continue;
    REQUIRE(one.last.finish == FinishReason::length);
    REQUIRE(one.last.completion_tokens == static_cast<int>(one.ids.size()));
  }
  if (!one_size) return;
  // With prompts of one size, first come is first served within a tier and priority.
  for (const auto& [a, first] : asked) {
    for (const auto& [b, second] : asked) {
      const bool same =
          first.place.tier == second.place.tier && first.place.priority == second.place.priority;
      if (!same || a >= b || !first.plain || !second.plain) continue;
      REQUIRE(first.started <= second.started);
    }
  }
}

TEST_CASE("in thousands of random scenarios nobody starves, order holds and nothing leaks") {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    run_scenario(seed);
  }
}

TEST_CASE("however often sequences of lower tiers are made to pause, every answer is as if undisturbed") {
  std::mt19937 random(17);
  Rig rig({.slots = 3, .step_tokens = 24, .logit_rows = 8, .pages = 9});
  std::map<TokenId, std::pair<int, int>> asked;
  for (TokenId name = 300; name < 700; ++name) {
    const int prompt = 1 + static_cast<int>(random() % 150), answer = 1 + static_cast<int>(random() % 50);
    asked[name] = {prompt, answer};
    rig.add(name, static_cast<Tier>(random() % 3), prompt, answer);
    for (auto turns = random() % 12; turns > 0; --turns) rig.turn();
  }
  REQUIRE(rig.finish(100000));
  CHECK(rig.scheduler.preemptions() > 50);
  for (const auto& one : rig.ended) {
    const auto [prompt, answer] = asked[one.name];
    REQUIRE(one.ids == rig.undisturbed(one.name, prompt, answer));
  }
}

TEST_CASE(
    "10,000 requests cancelled in the queue, in prefill, while decoding or paused leave nothing behind") {
  std::mt19937 random(19);
  const SchedulerLimits limits{.slots = 6, .step_tokens = 40, .logit_rows = 12, .pages = 40};
  Rig rig(limits);
  std::vector<test::Flag> flags;
  std::map<std::string, int> cancelled_in;
  int cancelled = 0;
  while (cancelled < 10000) {
    while (rig.scheduler.waiting() < 12) {
      Request request;
      request.prompt = Ids(1 + random() % 200, static_cast<TokenId>(300 + random() % 1000));
      request.max_tokens = 1 + static_cast<int>(random() % 60);
      request.tier = random() % 10 == 0 ? kPriority : kDefault;
      request.score_prompt = random() % 10 == 0;
      flags.push_back(rig.add(std::move(request)));
    }
    const std::size_t victim = random() % flags.size();
    if (!*flags[victim]) {
      *flags[victim] = true;
      ++cancelled;
    }
    flags.erase(flags.begin() + static_cast<std::ptrdiff_t>(victim));
    if (flags.size() > 40) flags.erase(flags.begin(), flags.begin() + 10);
    const auto before = rig.ended.size();
    if (random() % 2 == 0) rig.turn();
    for (auto i = before; i < rig.ended.size(); ++i) {
      const RequestOutput& last = rig.ended[i].last;
      if (last.finish != FinishReason::cancelled) continue;
      ++cancelled_in[last.completion_tokens > 0                   ? "decode"
                     : last.times.admitted == Clock::time_point() ? "queue"
                                                                  : "prefill"];
    }
  }
  for (const auto& flag : flags) *flag = true;
  rig.turn();
  for (int turn = 0; turn < 5000 && rig.scheduler.busy(); ++turn) rig.turn();
  CHECK(cancelled_in["queue"] > 500);
  CHECK(cancelled_in["prefill"] > 100);
  CHECK(cancelled_in["decode"] > 100);
  CHECK_FALSE(rig.scheduler.busy());
  CHECK(rig.scheduler.pages().used() == 0);
  CHECK(rig.scheduler.waiting_tokens() == 0);
  const EngineLoad load = rig.scheduler.load();
  for (const QueuedWork& queue : load.queue) {
    CHECK(queue.requests == 0);
    CHECK(queue.prompt_tokens == 0);
    CHECK(std::abs(queue.answer_tokens) < 1e-6);
  }
}

}  // namespace
}  // namespace grokd

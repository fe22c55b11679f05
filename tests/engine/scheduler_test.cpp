#include "engine/scheduler.h"

#include <doctest/doctest.h>

#include <random>

#include "engine/models/config.h"

#include "tests/support/scheduler_rig.h"

namespace grokd {
namespace {

using test::FakeTokenizer;
using Ids = std::vector<TokenId>;

constexpr SchedulerLimits kSmall{.slots = 4, .step_tokens = 32, .logit_rows = 16, .pages = 64};

struct Rig : test::SchedulerRig {
  explicit Rig(SchedulerLimits limits = kSmall, test::Script script = test::answer_with(Ids(1000, 70)))
      : SchedulerRig(limits, std::move(script)) {}
};

using Rows = std::vector<std::pair<TokenId, int>>;

TEST_CASE("a step has one row of every decoding sequence, then prompts in the order of admission") {
  Rig rig;
  rig.add(11, 4, 100);
  rig.add(12, 5, 100);
  rig.turn();
  CHECK(rig.rows == Rows{{11, 4}, {12, 5}});
  rig.add(13, 40, 100);
  rig.add(14, 40, 100);
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}, {12, 1}, {13, 30}});
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}, {12, 1}, {13, 10}, {14, 20}});
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}, {12, 1}, {13, 1}, {14, 20}});
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}, {12, 1}, {13, 1}, {14, 1}});
}

TEST_CASE("only the last row of a prompt and rows that decode ask for logits") {
  Rig rig;
  rig.add(11, 3, 10);
  rig.turn();
  rig.add(12, 40, 10);
  CHECK(rig.turn().batch.logit_rows == std::vector<std::int32_t>{0});
  CHECK(rig.turn().batch.logit_rows == std::vector<std::int32_t>{0, 9});
}

TEST_CASE("a prompt goes on in every step however many sequences decode") {
  Rig rig({.slots = 4, .step_tokens = 5, .logit_rows = 4, .pages = 64});
  for (const TokenId name : {11, 12, 13}) rig.add(name, 1, 1000);
  rig.turn();
  rig.add(14, 20, 10);
  for (int step = 0; step < 10; ++step) {
    rig.turn();
    CHECK(rig.rows == Rows{{11, 1}, {12, 1}, {13, 1}, {14, 2}});
  }
  rig.turn();
  CHECK(rig.rows.back() == std::pair<TokenId, int>{14, 1});
}

TEST_CASE("a scored prompt takes no more rows of logits than are left by those that decode") {
  Rig rig({.slots = 4, .step_tokens = 32, .logit_rows = 6, .pages = 64});
  rig.add(11, 1, 100);
  rig.add(12, 1, 100);
  rig.turn();
  Request scored;
  scored.prompt = Ids(20, 13);
  scored.score_prompt = true;
  scored.max_tokens = 5;
  rig.add(std::move(scored));
  rig.add(14, 8, 100);
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}, {12, 1}, {13, 4}, {14, 7}});  // its last row needs logits, too
}

TEST_CASE("the queue goes by tier, then priority, then arrival") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  rig.add(10, 1, 1);
  rig.turn();
  const auto add = [&](TokenId name, int tier, int priority) {
    Request request;
    request.prompt = {name};
    request.max_tokens = 1;
    request.tier = tier;
    request.priority = priority;
    rig.add(std::move(request));
  };
  add(11, 2, 0);
  add(12, 1, 5);
  add(13, 1, 0);
  add(14, 1, 0);
  add(15, 0, 50);
  add(16, 1, -3);
  while (rig.scheduler.busy()) rig.turn();
  CHECK(rig.order() == Ids{10, 15, 16, 13, 14, 12, 11});
}

TEST_CASE("the head of the queue waits for its pages and is not overtaken") {
  Rig rig({.slots = 4, .step_tokens = 32, .logit_rows = 16, .pages = 4});
  rig.add(11, 10, 100);  // 2 pages
  rig.turn();
  rig.add(12, 10, 200);  // 4 pages
  rig.add(13, 1, 1);     // 1 page would be free
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}});
  CHECK(rig.scheduler.waiting() == 2);
  CHECK(rig.scheduler.waiting_tokens() == 11);
  while (rig.scheduler.waiting() == 2) rig.turn();
  CHECK(rig.order() == Ids{11});
  while (rig.scheduler.busy()) rig.turn();
  CHECK(rig.scheduler.pages().used() == 0);
}

TEST_CASE("a sequence holds pages for its prompt and every token that is fed again, no more") {
  Rig rig;
  rig.add(11, 60, 5);  // the fifth token is never fed: 64 positions
  rig.turn();
  CHECK(rig.scheduler.pages().used() == 1);
  while (rig.scheduler.busy()) rig.turn();
  rig.add(11, 60, 6);
  rig.turn();
  CHECK(rig.scheduler.pages().used() == 2);
}

TEST_CASE("the slot of an ended sequence is taken in the next step") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  rig.add(11, 1, 2);
  rig.add(12, 1, 2);
  rig.turn();
  rig.turn();
  CHECK(rig.rows == Rows{{11, 1}});
  rig.turn();
  CHECK(rig.rows == Rows{{12, 1}});
}

TEST_CASE("a cancelled sequence is in no further step and its slot serves the next") {
  Rig rig({.slots = 1, .step_tokens = 32, .logit_rows = 16, .pages = 64});
  const auto cancelled = rig.add(11, 100, 100);
  rig.add(12, 1, 2);
  rig.turn();
  *cancelled = true;
  rig.turn();
  CHECK(rig.rows == Rows{{12, 1}});
  REQUIRE(rig.order() == Ids{11});
  CHECK(rig.ended[0].last.finish == FinishReason::cancelled);
}

TEST_CASE("limits under which a prompt could starve are refused") {
  CHECK_THROWS_AS(Rig({.slots = 4, .step_tokens = 4, .logit_rows = 16, .pages = 64}), ConfigError);
  CHECK_THROWS_AS(Rig({.slots = 4, .step_tokens = 32, .logit_rows = 3, .pages = 64}), ConfigError);
}

TEST_CASE("thousands of random requests, cancelled or not, leave no page, slot or request behind") {
  const SchedulerLimits limits{.slots = 5, .step_tokens = 12, .logit_rows = 7, .pages = 20};
  Rig rig(limits, test::hash_of_history(FakeTokenizer().vocab_size(), 0));
  std::mt19937 random(5);
  std::vector<std::shared_ptr<std::atomic<bool>>> flags;
  std::size_t added = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    if (random() % 3 == 0 && rig.scheduler.waiting() < 10) {
      Request request;
      request.prompt = Ids(1 + random() % 150, static_cast<TokenId>(4 + random() % 200));
      request.max_tokens = static_cast<int>(random() % 40);
      request.min_tokens = static_cast<int>(random() % 5);
      request.score_prompt = random() % 8 == 0;
      request.tier = static_cast<int>(random() % 3);
      request.sampling.seed = random();
      request.sampling.frequency_penalty = random() % 4 == 0 ? 1 : 0;
      if (random() % 4 == 0) request.stop = {"a", "bc"};
      if (random() % 4 == 0) request.stop_token_ids = {80, 81, 82, 83};
      if (random() % 10 == 0) request.deadline = rig.now + std::chrono::milliseconds(random() % 60);
      flags.push_back(rig.add(std::move(request)));
      ++added;
    }
    if (random() % 5 == 0 && !flags.empty())
      *flags[flags.size() - 1 - random() % std::min<std::size_t>(flags.size(), 12)] = true;
    rig.turn();
    REQUIRE(rig.scheduler.running() <= limits.slots);
  }
  for (int turn = 0; turn < 5000 && rig.scheduler.busy(); ++turn) rig.turn();
  CHECK_FALSE(rig.scheduler.busy());
  CHECK(rig.scheduler.pages().used() == 0);
  CHECK(rig.scheduler.waiting_tokens() == 0);
  CHECK(rig.ended.size() == added);
  CHECK(added > 3000);
}

}  // namespace
}  // namespace grokd

// How much of the waiting prompts a step takes beside those that decode.
#include "engine/step_planner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/support/scheduler_rig.h"

namespace grokd {
namespace {

using test::SchedulerRig;
using Ids = std::vector<TokenId>;

constexpr SchedulerLimits kLimits{.slots = 16, .step_tokens = 256, .logit_rows = 64, .pages = 1024};

/// A machine on which a step costs this; 8 decodes take some 11 ms, a row of a prompt 0.5 ms.
double machine(const StepWork& work) {
  return 1e-3 + 5e-4 * work.tokens + 6e-3 * (1 - std::pow(0.75, work.tokens)) +
         2e-8 * static_cast<double>(work.positions_read) + 5e-5 * work.logit_rows;
}

/// Eight sequences that decode for long, on a model that has learned the machine.
struct Busy : SchedulerRig {
  explicit Busy(StepPolicy policy) : SchedulerRig(kLimits, test::answer_with(Ids(4000, 70)), policy) {
    seconds = machine;
    for (int i = 0; i < 400; ++i) {
      StepWork work;
      for (int k = 0; k < 1 + i % 8; ++k) work.add_rows(1, 7 * i, 1);
      if (i % 3 == 0) work.add_rows(1 + i % 200, 0, 1);
      model.observe(work, machine(work));
    }
    for (TokenId name = 11; name < 19; ++name) add(name, 1, 2000);
    turn();
  }
  int prompt_rows() const {
    int sum = 0;
    for (const auto& [name, count] : rows) sum += name >= 19 ? count : 0;
    return sum;
  }
};

TEST_CASE("a prompt takes what the inter-token target leaves, and the step ends in time") {
  Busy rig({.itl_target_seconds = 0.05});
  rig.add(20, 600, 10);
  for (int turn = 0; turn < 7; ++turn) {
    rig.turn();
    CHECK(rig.step_seconds < 0.05 * 1.05);
    CHECK(rig.step_seconds > 0.05 * 0.9);
  }
}

TEST_CASE("where the decodes alone exceed the target a prompt may lengthen the step by half") {
  Busy rig({.itl_target_seconds = 0.001});
  rig.turn();
  const double quiet = rig.step_seconds;
  rig.add(20, 300, 10);
  rig.turn();
  CHECK(rig.step_seconds > 1.35 * quiet);
  CHECK(rig.step_seconds < 1.55 * quiet);
}

TEST_CASE("without a target a step is filled") {
  Busy rig({.itl_target_seconds = 0});
  rig.add(20, 600, 10);
  rig.turn();
  CHECK(rig.prompt_rows() == 248);
}

TEST_CASE("a prompt gets its least rows however slow the machine") {
  Busy rig({.itl_target_seconds = 0.05, .min_prefill_rows = 6});
  rig.seconds = [](const StepWork& work) { return 0.2 * work.tokens; };
  for (int turn = 0; turn < 2000; ++turn) {
    StepWork work;
    work.add_rows(1 + turn % 100, 0, 1 + turn % 3);
    rig.model.observe(work, rig.seconds(work));
  }
  rig.add(20, 20, 100);
  for (const int prompt_rows : {6, 6, 6, 2}) {
    rig.turn();
    CHECK(rig.prompt_rows() == prompt_rows);
  }
}

TEST_CASE("where nothing decodes a prompt takes the whole step") {
  SchedulerRig rig(kLimits, test::answer_with({70}), {.itl_target_seconds = 0.001});
  rig.add(20, 600, 10);
  rig.turn();
  CHECK(rig.rows == std::vector<std::pair<TokenId, int>>{{20, 256}});
}

TEST_CASE("a model that knows nothing yet lets prompts grow step by step") {
  SchedulerRig rig(kLimits, test::answer_with(Ids(4000, 70)), {.itl_target_seconds = 10});
  rig.add(11, 1, 2000);
  rig.turn();
  rig.add(20, 2000, 10);
  int before = 1;
  for (int turn = 0; turn < 4; ++turn) {
    rig.turn();
    CHECK(rig.rows.back().second <= std::max(4, 4 * before));
    before = rig.rows.back().second + 1;
  }
  CHECK(before > 100);
}

TEST_CASE("over random loads steps with decodes keep the bound and prompts go on in every step") {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const StepPolicy policy{.itl_target_seconds = 1e-3 * static_cast<double>(5 + random() % 60),
                            .prefix_cache = false};
    Busy rig(policy);
    int late = 0, steps = 0;
    for (int turn = 0; turn < 100; ++turn) {
      if (random() % 8 == 0) {
        rig.add(static_cast<TokenId>(20 + random() % 100), 1 + static_cast<int>(random() % 400),
                1 + static_cast<int>(random() % 40));
      }
      const Step& step = rig.turn();
      REQUIRE((rig.prefill_rows >= 4 || rig.prefill_left == 0 || step.batch.tokens() == kLimits.step_tokens));
      ++steps;
      const double bound = std::max(policy.itl_target_seconds, 1.5 * machine(rig.decodes));
      late += rig.step_seconds > 1.1 * bound && rig.prefill_rows > 4;
    }
    CHECK(late * 50 < steps);
  }
}

}  // namespace
}  // namespace grokd

// Requests that begin alike: what is not computed again, and that nobody can tell from the answer.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "tests/support/scheduler_rig.h"

namespace grokd {
namespace {

using test::FakeTokenizer;
using test::SchedulerRig;
using Ids = std::vector<TokenId>;

constexpr SchedulerLimits kLimits{.slots = 8, .step_tokens = 128, .logit_rows = 16, .pages = 64};

Request request_of(TokenId name, const Ids& rest, int max_tokens = 3) {
  Request request;
  request.prompt = {name};
  request.prompt.insert(request.prompt.end(), rest.begin(), rest.end());
  request.max_tokens = max_tokens;
  return request;
}

Ids counting(int count, int from = 10) {
  Ids ids;
  for (int i = 0; i < count; ++i) ids.push_back(from + i % 200);
  return ids;
}

struct Rig : SchedulerRig {
  explicit Rig(SchedulerLimits limits = kLimits)
      : SchedulerRig(limits, test::hash_of_history(FakeTokenizer().vocab_size())) {}
  const test::Ended& run(Request request) {
    add(std::move(request));
    REQUIRE(finish(10000));
    return ended.back();
  }
};

TEST_CASE("a prompt that was seen before is computed from its last whole page on") {
  Rig rig;
  CHECK(rig.run(request_of(11, counting(199))).last.cached_tokens == 0);
  CHECK(rig.run(request_of(11, counting(199))).last.cached_tokens == 192);
  CHECK(rig.ended[0].ids == rig.ended[1].ids);
  CHECK(rig.run(request_of(12, counting(199))).last.cached_tokens == 0);
}

TEST_CASE("the last token of a prompt is always computed") {
  Rig rig;
  for (const int cached : {0, 64}) CHECK(rig.run(request_of(11, counting(127))).last.cached_tokens == cached);
}

TEST_CASE("a conversation finds its own answer") {
  Rig rig;
  const auto first = rig.run(request_of(11, counting(99), 50));
  Ids longer = counting(99);
  longer.insert(longer.end(), first.ids.begin(), first.ids.end());
  longer.insert(longer.end(), {20, 21, 22});
  CHECK(rig.run(request_of(11, longer)).last.cached_tokens == 128);
}

TEST_CASE("prompts that come together wait for the first of them to compute what they share") {
  Rig rig;
  for (int i = 0; i < 8; ++i) {
    Ids rest = counting(511);
    rest.push_back(100 + i);
    rig.add(request_of(11, rest));
  }
  int fed = 0;
  while (rig.scheduler.busy()) {
    rig.turn();
    fed += rig.prefill_rows;
  }
  CHECK(fed == 512 + 8);  // the first: 513; the others: one row each
  for (std::size_t i = 1; i < 8; ++i) CHECK(rig.ended[i].last.cached_tokens == 512);
}

TEST_CASE("those who wait go on when the first is cancelled") {
  Rig rig;
  const auto first = rig.add(request_of(11, counting(511)));
  rig.add(request_of(11, counting(511)));
  rig.turn();
  CHECK(rig.rows.size() == 1);
  *first = true;
  REQUIRE(rig.finish(100));
  CHECK(rig.ended.back().last.finish == FinishReason::length);
}

TEST_CASE("salts, scored prompts and a cache switched off share nothing") {
  Rig rig;
  rig.run(request_of(11, counting(199)));
  auto salted = request_of(11, counting(199));
  salted.cache_salt = "x";
  CHECK(rig.run(std::move(salted)).last.cached_tokens == 0);
  auto scored = request_of(11, counting(199));
  scored.score_prompt = true;
  CHECK(rig.run(std::move(scored)).last.cached_tokens == 0);
  SchedulerRig off(kLimits, test::answer_with({70}), {.itl_target_seconds = 0, .prefix_cache = false});
  for (int i = 0; i < 2; ++i) {
    off.add(request_of(11, counting(199)));
    REQUIRE(off.finish(100));
    CHECK(off.ended.back().last.cached_tokens == 0);
    CHECK(off.scheduler.pages().free() == kLimits.pages);
  }
}

TEST_CASE("pages that led to logits that are not finite are not found again") {
  SchedulerRig rig(kLimits, [](std::span<const TokenId>, const kernels::SamplingRow& row) {
    return row.draw == 40 ? test::kNotFinite : TokenId{70};
  });
  for (int i = 0; i < 2; ++i) {
    rig.add(request_of(11, counting(99), 100));
    REQUIRE(rig.finish(1000));
    CHECK(rig.ended.back().last.finish == FinishReason::error);
  }
  CHECK(rig.ended[1].last.cached_tokens == 64);
  Ids longer = counting(99);
  longer.insert(longer.end(), 41, 70);
  rig.add(request_of(11, longer, 1));
  REQUIRE(rig.finish(100));
  CHECK(rig.ended.back().last.cached_tokens == 128);  // 139 positions led to finite logits
}

TEST_CASE("random conversations over a small cache get the answers of a cache that is never shared") {
  std::mt19937 random(13);
  const SchedulerLimits tight{.slots = 4, .step_tokens = 40, .logit_rows = 8, .pages = 16};
  Rig shared(tight);
  SchedulerRig own(tight, test::hash_of_history(FakeTokenizer().vocab_size()),
                   {.itl_target_seconds = 0, .prefix_cache = false});
  int asked = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto kind = static_cast<TokenId>(random() % 3);
    const int length = 1 + static_cast<int>(random() % 250), answer = 1 + static_cast<int>(random() % 30);
    const auto seed = random() % 2;
    for (SchedulerRig* rig : {static_cast<SchedulerRig*>(&shared), &own}) {
      auto request = request_of(11 + kind, counting(length), answer);
      request.id = std::to_string(round);
      request.sampling.seed = seed;
      rig->add(std::move(request));
    }
    ++asked;
    for (auto turns = random() % 8; turns > 0; --turns) {
      shared.turn();
      own.turn();
    }
  }
  REQUIRE(shared.finish(100000));
  REQUIRE(own.finish(100000));
  REQUIRE(shared.ended.size() == static_cast<std::size_t>(asked));
  std::multimap<Ids, TokenId> ours, theirs;
  int cached = 0;
  for (const auto& one : shared.ended) {
    ours.emplace(one.ids, one.name);
    cached += one.last.cached_tokens;
  }
  for (const auto& one : own.ended) theirs.emplace(one.ids, one.name);
  CHECK(ours == theirs);
  CHECK(cached > 10000);
  CHECK(shared.scheduler.pages().used() == 0);
}

}  // namespace
}  // namespace grokd

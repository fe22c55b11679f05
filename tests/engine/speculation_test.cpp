#include "engine/speculation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

#include "tests/support/scheduler_rig.h"

namespace grokd {
namespace {

using test::FakeTokenizer;
using test::SchedulerRig;
using Ids = std::vector<TokenId>;

Ids proposals(const Ids& tokens, std::size_t most = kMaxProposals) {
  Ids out(most);
  out.resize(static_cast<std::size_t>(propose(tokens, out)));
  return out;
}

TEST_CASE("what followed the longest earlier occurrence of the end is proposed, of equals the latest") {
  CHECK(proposals({1, 2, 3, 4, 5, 1, 2}) == Ids{3, 4, 5, 1, 2, 3, 4, 5});
  CHECK(proposals({1, 2, 3, 4, 5, 1, 2}, 2) == Ids{3, 4});
  CHECK(proposals({9, 1, 2, 7, 1, 2, 8, 1, 2}, 1) == Ids{8});
  CHECK(proposals({9, 1, 2, 7, 1, 2, 8, 9, 1, 2}, 1) == Ids{7});
  CHECK(proposals({5, 5, 5}, 3) == Ids{5, 5, 5});
}

TEST_CASE("one token alone, or nothing that occurred before, proposes nothing") {
  CHECK(proposals({}) == Ids{});
  CHECK(proposals({1}) == Ids{});
  CHECK(proposals({1, 1}) == Ids{});
  CHECK(proposals({1, 2, 3}) == Ids{});
  CHECK(proposals({2, 1, 3, 1}) == Ids{});
}

TEST_CASE("proposals of random texts go on as the text did before") {
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    Ids tokens(random() % 60);
    for (TokenId& id : tokens) id = static_cast<TokenId>(random() % 3);
    const Ids found = proposals(tokens, 1 + random() % kMaxProposals);
    if (found.empty()) continue;
    Ids longer = tokens, pattern(tokens.end() - 2, tokens.end());
    longer.insert(longer.end(), found.begin(), found.end());
    pattern.insert(pattern.end(), found.begin(), found.end());
    const auto at = std::search(longer.begin(), longer.end(), pattern.begin(), pattern.end());
    REQUIRE(at < longer.begin() + static_cast<std::ptrdiff_t>(tokens.size()) - 2);
  }
}

TEST_CASE("the record follows how many proposals hold") {
  ProposalRecord good, bad;
  for (int i = 0; i < 20; ++i) {
    good.learn(4, 4);
    bad.learn(1, 0);
  }
  CHECK(good.expected(4) > 3.8);
  CHECK(bad.expected(8) < 0.02);
  CHECK(good.expected(0) == 0);
}

// ---- in the scheduler ----

constexpr SchedulerLimits kLimits{.slots = 4, .step_tokens = 64, .logit_rows = 24, .pages = 200};
constexpr StepPolicy kOn{.itl_target_seconds = 0, .speculate = true};
constexpr StepPolicy kOff{.itl_target_seconds = 0, .speculate = false};

/// A text that repeats itself with changes: the next token depends on the last few, and now and then on more.
test::Script repetitive() {
  return [](std::span<const TokenId> history, const kernels::SamplingRow& row) {
    const std::size_t n = history.size();
    std::uint64_t hash = row.seed + (row.draw % 23 == 0 ? row.draw : 0);
    for (std::size_t i = n > 2 ? n - 2 : 0; i < n; ++i)
      hash = hash * 31 + static_cast<std::uint64_t>(history[i]);
    hash *= 0x9E3779B97F4A7C15;
    return static_cast<TokenId>(hash >> 40 & 63) == 0 ? TokenId{2}
                                                      : static_cast<TokenId>(60 + (hash >> 50) % 12);
  };
}

double cheap_rows(const StepWork& work) { return 1e-2 + 1e-5 * work.tokens; }
double dear_rows(const StepWork& work) { return 1e-2 * work.tokens; }

int turns_for(StepPolicy policy, double (*seconds)(const StepWork&), const test::Script& script) {
  SchedulerRig rig(kLimits, script, policy);
  rig.seconds = seconds;
  for (int i = 0; i < 60; ++i) {
    StepWork work;
    work.add_rows(1 + i % 12, i, 1 + i % 3);
    rig.model.observe(work, seconds(work));
  }
  Request request;
  request.prompt = {10, 11};
  request.max_tokens = 400;
  request.ignore_eos = true;
  rig.add(std::move(request));
  int turns = 0;
  for (; rig.scheduler.busy(); ++turns) rig.turn();
  REQUIRE(rig.ended.at(0).last.completion_tokens == 400);
  return turns;
}

TEST_CASE("a text that repeats itself takes a fraction of the steps where rows are cheap") {
  const auto loop = [](std::span<const TokenId>, const kernels::SamplingRow& row) {
    return static_cast<TokenId>(60 + row.draw % 7);
  };
  CHECK(turns_for(kOff, cheap_rows, loop) == 400);
  CHECK(turns_for(kOn, cheap_rows, loop) < 80);
}

TEST_CASE("where a row costs as much as a step none is spent on proposals") {
  const auto loop = [](std::span<const TokenId>, const kernels::SamplingRow& row) {
    return static_cast<TokenId>(60 + row.draw % 7);
  };
  CHECK(turns_for(kOn, dear_rows, loop) == 400);
}

TEST_CASE("a text that does not repeat itself takes no rows for proposals") {
  SchedulerRig rig(kLimits, test::hash_of_history(FakeTokenizer().vocab_size()), kOn);
  rig.seconds = [](const StepWork& work) { return 1e-2 + 5e-3 * work.tokens; };
  Request request;
  request.prompt = {10, 11};
  request.max_tokens = 1000;
  request.ignore_eos = true;
  rig.add(std::move(request));
  int rows = 0;
  while (rig.scheduler.busy()) rows += rig.turn().batch.tokens();
  CHECK(rows < 1001 * 1.01);
}

/// Everything that a request can ask for and speculation could get wrong.
Request random_request(std::mt19937& random, TokenId name) {
  Request request;
  request.prompt = Ids(1 + random() % 70, 60);
  request.prompt[0] = name;
  request.max_tokens = 1 + static_cast<int>(random() % 120);
  request.sampling.seed = random() % 3;
  request.sampling.top_logprobs = static_cast<int>(random() % 3) - 1;
  request.min_tokens = random() % 3 == 0 ? static_cast<int>(random() % 40) : 0;
  request.ignore_eos = random() % 3 == 0;
  request.score_prompt = random() % 8 == 0;
  request.sampling.frequency_penalty = random() % 6 == 0 ? 1 : 0;
  if (random() % 4 == 0) request.stop = {"<=", "@A"};
  if (random() % 4 == 0) request.stop_token_ids = {64, 65};
  request.tier = static_cast<int>(random() % 3);
  return request;
}

struct Text {
  std::string text;
  Ids ids;
  std::vector<TokenLogprob> top;
  FinishReason finish = FinishReason::none;
  bool operator==(const Text& other) const {
    const auto same = [](const TokenLogprob& a, const TokenLogprob& b) {
      return a.id == b.id && a.logprob == b.logprob;
    };
    return text == other.text && ids == other.ids && finish == other.finish &&
           std::equal(top.begin(), top.end(), other.top.begin(), other.top.end(), same);
  }
};

std::map<TokenId, Text> answers(StepPolicy policy, std::uint32_t seed, int& turns) {
  std::mt19937 random(seed);
  SchedulerRig rig(kLimits, repetitive(), policy);
  rig.seconds = cheap_rows;
  std::map<TokenId, Text> texts;
  for (TokenId name = 300; name < 330; ++name) {
    rig.add(random_request(random, name), [&texts, name](const RequestOutput& piece) {
      Text& text = texts[name];
      text.text += piece.text;
      text.ids.insert(text.ids.end(), piece.new_ids.begin(), piece.new_ids.end());
      for (const auto& token : piece.tokens)
        text.top.insert(text.top.end(), token.top.begin(), token.top.end());
      text.finish = piece.finish;
    });
  }
  for (turns = 0; rig.scheduler.busy(); ++turns) rig.turn();
  REQUIRE(rig.scheduler.pages().used() == 0);
  return texts;
}

TEST_CASE("random requests get the same answers with speculation and without, in fewer steps") {
  int fewer = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    int with = 0, without = 0;
    REQUIRE(answers(kOn, seed, with) == answers(kOff, seed, without));
    fewer += with < without;
  }
  CHECK(fewer > 90);
}

TEST_CASE("proposals leave room for prompts and their rows of logits") {
  SchedulerRig rig({.slots = 2, .step_tokens = 12, .logit_rows = 4, .pages = 40},
                   test::answer_with(Ids(1000, 70)), kOn);
  rig.seconds = cheap_rows;
  rig.add(11, 2, 900);
  for (int turn = 0; turn < 30; ++turn) rig.turn();
  rig.add(12, 100, 5);
  int turns = 0;
  while (rig.ended.empty()) {
    rig.turn();
    REQUIRE(++turns < 40);
  }
}

}  // namespace
}  // namespace grokd

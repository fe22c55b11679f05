#include "engine/engine.h"

#include <doctest/doctest.h>

#include "tests/support/engine_harness.h"

namespace grokd {
namespace {

using test::Answer;
using test::answer_with;
using test::EngineHarness;
using test::FakeRunner;
using test::FakeTokenizer;
using test::Gate;
using test::request_for;
using Ids = std::vector<TokenId>;

Ids bytes(std::string_view text) { return FakeTokenizer::bytes_of(text); }

constexpr TokenId kFirst = FakeTokenizer::kFirstPiece;

// ---- how an answer ends ----

TEST_CASE("end-of-sequence ends an answer: it is counted but gives no text and no token entry") {
  EngineHarness harness({.script = answer_with(bytes("hi"))});
  auto answer = harness.run(request_for("x", 10));
  CHECK(answer.text() == "hi");
  CHECK(answer.token_bytes() == "hi");
  CHECK(answer.ids() == Ids{FakeTokenizer::byte('h'), FakeTokenizer::byte('i'), 2});
  CHECK(answer.last().finish == FinishReason::stop);
  CHECK(answer.last().completion_tokens == 3);
  CHECK(answer.last().prompt_tokens == 1);
  CHECK(answer.last().stop_token == -1);
}

TEST_CASE("special tokens are listed with empty text when they are not skipped") {
  EngineHarness harness({.script = answer_with(bytes("h"))});
  auto request = request_for("x", 10);
  request.skip_special_tokens = false;
  auto answer = harness.run(std::move(request));
  CHECK(answer.text() == "h");
  REQUIRE(answer.tokens().size() == 2);
  CHECK(answer.tokens()[1].id == 2);
  CHECK(answer.tokens()[1].bytes.empty());
}

TEST_CASE("an answer ends at max_tokens") {
  EngineHarness harness({.script = answer_with(bytes("hello"))});
  auto answer = harness.run(request_for("x", 3));
  CHECK(answer.text() == "hel");
  CHECK(answer.last().finish == FinishReason::length);
  CHECK_FALSE(answer.last().timed_out);
  CHECK(answer.last().completion_tokens == 3);
}

TEST_CASE("max_tokens 0 ends at once without a step") {
  EngineHarness harness({.script = answer_with(bytes("hello"))});
  auto answer = harness.run(request_for("abc", 0));
  CHECK(answer.text().empty());
  CHECK(answer.last().finish == FinishReason::length);
  CHECK(answer.last().completion_tokens == 0);
  CHECK(harness.wait_until_idle().steps == 0);
}

TEST_CASE("a stop string ends an answer and is named") {
  EngineHarness harness(
      {.script = answer_with({kFirst, kFirst + 1, kFirst + 2}), .pieces = {"one", " tw", "o three"}});
  auto request = request_for("x", 10);
  request.stop = {"three", "two"};
  auto answer = harness.run(std::move(request));
  CHECK(answer.text() == "one ");
  CHECK(answer.last().finish == FinishReason::stop);
  CHECK(answer.last().stop_string == "two");
  CHECK(answer.last().completion_tokens == 3);
  CHECK(answer.ids() == Ids{kFirst, kFirst + 1, kFirst + 2});
}

TEST_CASE("a stop id ends an answer without its text and is named") {
  EngineHarness harness({.script = answer_with(bytes("ab!c"))});
  auto request = request_for("x", 10);
  request.stop_token_ids = {FakeTokenizer::byte('!')};
  auto answer = harness.run(std::move(request));
  CHECK(answer.text() == "ab");
  CHECK(answer.last().finish == FinishReason::stop);
  CHECK(answer.last().stop_token == FakeTokenizer::byte('!'));
  CHECK(answer.last().completion_tokens == 3);
}

TEST_CASE("with ignore_eos end-of-sequence may be drawn and ends nothing") {
  EngineHarness harness({.script = answer_with({FakeTokenizer::byte('a'), 2, FakeTokenizer::byte('b')})});
  auto request = request_for("x", 3);
  request.ignore_eos = true;
  auto answer = harness.run(std::move(request));
  CHECK(answer.text() == "ab");
  CHECK(answer.ids() == Ids{FakeTokenizer::byte('a'), 2, FakeTokenizer::byte('b')});
  CHECK(answer.last().finish == FinishReason::length);
}

TEST_CASE(
    "until min_tokens neither end-of-sequence nor a stop id can be drawn, and stop strings are ignored") {
  const TokenId dot = FakeTokenizer::byte('.');
  EngineHarness harness({.script = answer_with({2, dot, FakeTokenizer::byte('a'), dot, 2})});
  auto request = request_for("x", 10);
  request.min_tokens = 3;
  request.stop_token_ids = {dot};
  request.stop = {"/"};
  auto answer = harness.run(std::move(request));
  // The fake draws the next higher token in place of one it may not: 3 is never drawn either, 4 is byte 0;
  // "/" is after ".".
  CHECK(answer.ids() == Ids{4, FakeTokenizer::byte('/'), FakeTokenizer::byte('a'), dot});
  CHECK(answer.last().stop_token == dot);
}

TEST_CASE("padding, begin and unknown are never drawn, nor ids without a piece") {
  EngineHarness harness({.script = answer_with({0, 1, 3, 259}),
                         .limit = [](RunnerLimits& limits) { limits.vocab_size = 300; }});
  auto request = request_for("x", 4);
  request.min_tokens = 4;
  auto answer = harness.run(std::move(request));
  CHECK(answer.ids() == Ids{4, 4, 4, 259});
  EngineHarness beyond(
      {.script = answer_with({280}), .limit = [](RunnerLimits& limits) { limits.vocab_size = 300; }});
  CHECK(beyond.run(request_for("x", 1)).ids() == Ids{2});
}

TEST_CASE("a deadline ends a running answer with what it has") {
  Gate gate;
  EngineHarness harness({.script = answer_with(Ids(100, FakeTokenizer::byte('a'))),
                         .before_step = [&](const Batch&) { gate.pass(); }});
  auto request = request_for("x", 100);
  const auto deadline = Clock::now() + std::chrono::milliseconds(500);
  request.deadline = deadline;
  Answer answer;
  const auto handle = harness.submit(std::move(request), answer);
  gate.let_steps(2);
  gate.wait_for_step(3);
  std::this_thread::sleep_until(deadline);
  gate.open();
  CHECK(answer.text() == "aaa");
  CHECK(answer.last().finish == FinishReason::length);
  CHECK(answer.last().timed_out);
}

TEST_CASE("a deadline that passed in the queue ends the request without text") {
  EngineHarness harness({.script = answer_with(bytes("a"))});
  auto request = request_for("x", 10);
  request.deadline = Clock::now() - std::chrono::seconds(1);
  auto answer = harness.run(std::move(request));
  CHECK(answer.text().empty());
  CHECK(answer.last().timed_out);
  CHECK(answer.last().finish == FinishReason::length);
  CHECK(harness.wait_until_idle().steps == 0);
}

TEST_CASE("characters of several tokens come whole, broken ones as one replacement at the end") {
  EngineHarness harness({.script = answer_with(bytes("😀!"))});
  CHECK(harness.run(request_for("x", 10)).wait()[0].text == "😀");
  CHECK(harness.run(request_for("x", 10)).text() == "😀!");
  CHECK(harness.run(request_for("x", 2)).text() == "\uFFFD");
}

// ---- log-probabilities ----

TEST_CASE("tokens carry their log-probability and the best others") {
  EngineHarness harness({.script = answer_with(bytes("hi"))});
  auto request = request_for("x", 2);
  request.sampling.top_logprobs = 2;
  const auto tokens = harness.run(std::move(request)).tokens();
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].logprob == FakeRunner::logprob(FakeTokenizer::byte('h')));
  REQUIRE(tokens[1].top.size() == 2);
  CHECK(tokens[1].top[1].id == 1);
  CHECK(tokens[1].top[1].logprob == FakeRunner::logprob(1));
}

TEST_CASE("a scored prompt gives one score a token and needs no answer") {
  EngineHarness harness({.script = answer_with(bytes("z"))});
  for (const int max_tokens : {0, 1}) {
    auto request = request_for("hello", max_tokens);
    request.score_prompt = true;
    request.sampling.top_logprobs = 1;
    auto answer = harness.run(std::move(request));
    const auto& scores = answer.wait()[0].prompt_scores;
    REQUIRE(scores.size() == 5);
    CHECK(scores[0].bytes == "h");
    CHECK(scores[0].top.empty());
    CHECK(scores[4].bytes == "o");
    CHECK(scores[4].logprob == FakeRunner::logprob(FakeTokenizer::byte('o')));
    CHECK(scores[4].top.size() == 1);
    CHECK(answer.last().completion_tokens == max_tokens);
  }
}

TEST_CASE("a long scored prompt stays within the rows of logits of a step") {
  EngineHarness harness(
      {.script = answer_with(bytes("z")), .limit = [](RunnerLimits& limits) { limits.max_logit_rows = 16; }});
  auto request = request_for(std::string(333, 'q'), 1);
  request.score_prompt = true;
  CHECK(harness.run(std::move(request)).wait()[0].prompt_scores.size() == 333);
}

// ---- penalties and constraints ----

TEST_CASE("penalty counts hold prompt and answer, each token once") {
  std::vector<std::vector<kernels::TokenCount>> seen;
  const auto script = [&](std::span<const TokenId>, const kernels::SamplingRow& row) {
    seen.emplace_back(row.counts.begin(), row.counts.end());
    return row.draw == 0 ? FakeTokenizer::byte('b') : FakeTokenizer::byte('z');
  };
  EngineHarness harness({.script = script});
  auto request = request_for("abb", 3);
  request.sampling.frequency_penalty = 0.5;
  harness.run(std::move(request));
  harness.run(request_for("abb", 1));
  const TokenId a = FakeTokenizer::byte('a'), b = FakeTokenizer::byte('b'), z = FakeTokenizer::byte('z');
  const auto flat = [](const std::vector<kernels::TokenCount>& counts) {
    Ids all;
    for (const auto& count : counts) all.insert(all.end(), {count.id, count.in_prompt, count.in_answer});
    return all;
  };
  REQUIRE(seen.size() == 4);
  CHECK(flat(seen[0]) == Ids{a, 1, 0, b, 2, 0});
  CHECK(flat(seen[1]) == Ids{a, 1, 0, b, 2, 1});
  CHECK(flat(seen[2]) == Ids{a, 1, 0, b, 2, 1, z, 0, 1});
  CHECK(seen[3].empty());
}

/// Allows the bytes of a word one after the other, then the end.
class OneWord final : public TokenConstraint {
 public:
  explicit OneWord(std::string word) : word_(std::move(word)) {}
  const std::uint64_t* allowed() override {
    std::fill(std::begin(mask_), std::end(mask_), 0);
    const TokenId id = at_ < word_.size() ? FakeTokenizer::byte(static_cast<unsigned char>(word_[at_])) : 2;
    mask_[id / 64] |= std::uint64_t{1} << (id % 64);
    return mask_;
  }
  void accept(TokenId) override { ++at_; }

 private:
  std::string word_;
  std::size_t at_ = 0;
  std::uint64_t mask_[5] = {};
};

TEST_CASE("a constraint decides what may be drawn, before min_tokens and ignore_eos") {
  EngineHarness harness({.script = answer_with(bytes("something else"))});
  auto request = request_for("x", 20);
  request.constraint = std::make_unique<OneWord>("yes");
  request.min_tokens = 10;
  request.ignore_eos = true;
  auto answer = harness.run(std::move(request));
  CHECK(answer.text() == "yes");
  CHECK(answer.last().finish == FinishReason::stop);
  CHECK(answer.last().stop_token == -1);
}

/// Lets one token follow, then nothing.
class DeadEnd final : public TokenConstraint {
 public:
  const std::uint64_t* allowed() override { return mask_; }
  void accept(TokenId) override { std::fill(std::begin(mask_), std::end(mask_), 0); }

 private:
  std::uint64_t mask_[5] = {~std::uint64_t{0}, ~std::uint64_t{0}};
};

TEST_CASE("a constraint that lets nothing follow ends the answer with an error") {
  EngineHarness harness({.script = answer_with(bytes("abc"))});
  auto request = request_for("x", 20);
  request.constraint = std::make_unique<DeadEnd>();
  auto answer = harness.run(std::move(request));
  CHECK(answer.text() == "a");
  CHECK(answer.last().finish == FinishReason::error);
  CHECK(answer.last().repeatable_error);
  CHECK(answer.last().completion_tokens == 1);
}

TEST_CASE("sampling settings reach the runner with the place in the answer") {
  kernels::SamplingRow seen;
  const auto script = [&](std::span<const TokenId>, const kernels::SamplingRow& row) {
    seen = row;
    return FakeTokenizer::byte('a');
  };
  EngineHarness harness({.script = script});
  auto request = request_for("x", 3);
  request.sampling.temperature = 0.5;
  request.sampling.top_p = 0.25;
  request.sampling.min_p = 0.125;
  request.sampling.top_k = 7;
  request.sampling.seed = 42;
  request.sampling.choice = 5;
  request.sampling.repetition_penalty = 1.5;
  request.sampling.presence_penalty = -1;
  harness.run(std::move(request));
  CHECK(seen.temperature == 0.5);
  CHECK(seen.top_p == 0.25);
  CHECK(seen.min_p == 0.125);
  CHECK(seen.top_k == 7);
  CHECK(seen.seed == 42);
  CHECK(seen.choice == 5);
  CHECK(seen.draw == 2);
  CHECK(seen.repetition_penalty == 1.5);
  CHECK(seen.presence_penalty == -1);
  CHECK(seen.forced == -1);
}

}  // namespace
}  // namespace grokd

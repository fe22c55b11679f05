#include "engine/step_message.h"

#include <doctest/doctest.h>

#include "engine/handshake.h"

namespace grokd {
namespace {

/// Three sequences, one without a row of logits.
struct Example {
  std::vector<std::int32_t> a{7, 3}, b{1}, c{2, 9, 4};
  Batch batch;
  Example() {
    batch.ids = {11, 12, 13, 14, 15};
    batch.sequences = {{0, 2, 64, a}, {2, 1, 5, b}, {3, 2, 130, c}};
    batch.logit_rows = {1, 4};
    batch.sampling.resize(2);
  }
};

RunnerLimits limits_of_example() {
  RunnerLimits limits;
  limits.context = 192;
  limits.max_batch_tokens = 5;
  limits.max_sequences = 3;
  limits.max_logit_rows = 2;
  return limits;
}

TEST_CASE("a step arrives as it was sent, however often the storage is used") {
  const Example example;
  kernels::Words message;
  SteppedBatch step;
  for (int i = 0; i < 2; ++i) {
    write_step(example.batch, message);
    REQUIRE(read_order(message) == Order::step);
    read_step(message, step);
    CHECK(step.batch.ids == example.batch.ids);
    CHECK(step.batch.logit_rows == example.batch.logit_rows);
    REQUIRE(step.batch.sequences.size() == 3);
    for (std::size_t s = 0; s < 3; ++s) {
      const auto &sent = example.batch.sequences[s], &got = step.batch.sequences[s];
      CHECK(got.first_row == sent.first_row);
      CHECK(got.rows == sent.rows);
      CHECK(got.position == sent.position);
      CHECK(std::vector(got.pages.begin(), got.pages.end()) ==
            std::vector(sent.pages.begin(), sent.pages.end()));
    }
  }
}

TEST_CASE("no step within the limits is longer than its buffer") {
  kernels::Words message;
  write_step(Example().batch, message);
  CHECK(message.size() <= longest_step_message(limits_of_example()));
}

TEST_CASE("a step's message that is cut off, too long or no order is refused") {
  kernels::Words message;
  SteppedBatch step;
  write_step(Example().batch, message);
  for (std::size_t length = 1; length < message.size(); ++length) {
    const kernels::Words cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_THROWS_AS(read_step(cut, step), std::runtime_error);
  }
  message.push_back(0);
  CHECK_THROWS_AS(read_step(message, step), std::runtime_error);
  CHECK_THROWS_AS(read_order({}), std::runtime_error);
  CHECK_THROWS_AS(read_order({99}), std::runtime_error);
}

TEST_CASE("a rank that differs is refused by the name of what differs") {
  const RankFacts leader{{"program", "a"}, {"weights", "b"}, {"context", "64"}};
  CHECK(difference(leader, facts_text(leader), 3) == "");
  RankFacts other = leader;
  other[1].second = "c";
  CHECK(difference(leader, facts_text(other), 3) == "rank 3 differs from rank 0 in weights: c, not b");
  CHECK(difference(leader, "program=a\n", 1) == "rank 1 differs from rank 0 in weights");
}

}  // namespace
}  // namespace grokd

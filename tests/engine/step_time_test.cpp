#include "engine/step_time.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace grokd {
namespace {

/// A machine: seconds of a step by the same parts as the model's, but with coefficients of its own.
struct Machine {
  double constant = 1e-3, token = 2e-4, experts = 8e-3, position = 2e-8, logits = 1e-4;
  double seconds(const StepWork& work) const {
    return constant + token * work.tokens + experts * (1 - std::pow(0.75, work.tokens)) +
           position * static_cast<double>(work.positions_read) + logits * work.logit_rows;
  }
};

StepWork random_work(std::mt19937& random) {
  StepWork work;
  const int decodes = static_cast<int>(random() % 17);
  for (int i = 0; i < decodes; ++i) work.add_rows(1, static_cast<int>(random() % 4000), 1);
  if (random() % 2 == 0 || decodes == 0) work.add_rows(1 + static_cast<int>(random() % 240), 0, 1);
  return work;
}

/// Mean relative error over steps that were not learned from.
double test_error(const StepTimeModel& model, const Machine& machine, std::mt19937& random) {
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    const StepWork work = random_work(random);
    sum += std::abs(model.predict(work) / machine.seconds(work) - 1);
  }
  return sum / 500;
}

TEST_CASE("rows of a sequence read every key before them and their own") {
  StepWork work;
  work.add_rows(3, 10, 1);
  CHECK(work.positions_read == 11 + 12 + 13);
  CHECK(work.tokens == 3);
  CHECK(work.logit_rows == 1);
}

TEST_CASE("the model learns any machine within a few hundred steps") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto part = [&](double most) { return most * static_cast<double>(random() % 1000) / 1000; };
    const Machine machine{1e-5 + part(2e-3), 1e-5 + part(5e-4), part(2e-2), part(1e-7), part(5e-4)};
    StepTimeModel model(8, 2);
    for (int i = 0; i < 500; ++i) {
      const StepWork work = random_work(random);
      model.observe(work, machine.seconds(work));
    }
    CAPTURE(round);
    CHECK(test_error(model, machine, random) < 0.05);
    CHECK(model.relative_error() < 0.05);
  }
}

TEST_CASE("noise and steps that take fifty times as long do not lead it astray") {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(0, 0.05);
  const Machine machine;
  StepTimeModel model(8, 2);
  for (int i = 0; i < 2000; ++i) {
    const StepWork work = random_work(random);
    const double seconds = machine.seconds(work) * (1 + noise(random));
    model.observe(work, random() % 50 == 0 ? 50 * seconds : seconds);
  }
  CHECK(test_error(model, machine, random) < 0.1);
}

TEST_CASE("a machine that becomes three times slower is learned again") {
  std::mt19937 random(3);
  Machine machine;
  StepTimeModel model(8, 2);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1500; ++i) {
      const StepWork work = random_work(random);
      model.observe(work, machine.seconds(work));
    }
    CHECK(test_error(model, machine, random) < 0.08);
    machine = {3e-3, 6e-4, 24e-3, 6e-8, 3e-4};
  }
}

TEST_CASE("thousands of equal steps do not make it forget what a prompt costs") {
  std::mt19937 random(4);
  std::normal_distribution<double> noise(0, 0.03);
  const Machine machine;
  StepTimeModel model(8, 2);
  for (int i = 0; i < 500; ++i) {
    const StepWork work = random_work(random);
    model.observe(work, machine.seconds(work));
  }
  StepWork decode;
  decode.add_rows(1, 100, 1);
  for (int i = 0; i < 20000; ++i) model.observe(decode, machine.seconds(decode) * (1 + noise(random)));
  StepWork prompt;
  prompt.add_rows(200, 0, 1);
  CHECK(model.predict(prompt) > 0.6 * machine.seconds(prompt));
  CHECK(model.predict(prompt) < 1.6 * machine.seconds(prompt));
}

TEST_CASE("more work is never predicted to take less time") {
  std::mt19937 random(5);
  StepTimeModel model(8, 2);
  for (int i = 0; i < 3000; ++i) {
    model.observe(random_work(random), 1e-4 * static_cast<double>(1 + random() % 1000));
    const StepWork work = random_work(random);
    StepWork more = work;
    more.add_rows(static_cast<int>(random() % 50), static_cast<int>(random() % 4000),
                  static_cast<int>(random() % 3));
    REQUIRE(model.predict(more) >= model.predict(work));
    REQUIRE(model.predict(work) >= 0);
  }
}

TEST_CASE("steps that something disturbs count in the mean, not in the prediction of the others") {
  const Machine machine;
  std::mt19937 random(9);
  StepTimeModel model(8, 2);
  for (int i = 0; i < 3000; ++i) {
    const StepWork work = random_work(random);
    model.observe(work, machine.seconds(work) * (random() % 10 == 0 ? 11 : 1));
  }
  CHECK(test_error(model, machine, random) < 0.15);
  CHECK(model.slowness() == doctest::Approx(2).epsilon(0.25));
  StepTimeModel calm(8, 2);
  for (int i = 0; i < 3000; ++i) {
    const StepWork work = random_work(random);
    calm.observe(work, machine.seconds(work));
  }
  CHECK(calm.slowness() == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("times that cannot be are ignored") {
  StepTimeModel model(8, 2);
  StepWork work;
  work.add_rows(1, 0, 1);
  for (const double seconds : {0.0, -1.0, std::nan(""), HUGE_VAL}) model.observe(work, seconds);
  CHECK_FALSE(model.ready());
  CHECK(model.predict(work) == 0);
}

}  // namespace
}  // namespace grokd

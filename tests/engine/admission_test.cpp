// Promises to those who come: that what is admitted ends in time, and that the time to come back is right.
#include "engine/admission.h"

#include <doctest/doctest.h>

#include <cmath>
#include <queue>
#include <random>

#include "engine/mailbox.h"
#include "tests/support/scheduler_rig.h"

namespace grokd {
namespace {

using test::SchedulerRig;
using Ids = std::vector<TokenId>;

constexpr SchedulerLimits kLimits{.slots = 8, .step_tokens = 128, .logit_rows = 64, .pages = 1024};

double machine(const StepWork& work) {
  return 2e-3 + 3e-4 * work.tokens + 6e-3 * (1 - std::pow(0.75, work.tokens)) + 5e-5 * work.logit_rows;
}

/// Mailbox and scheduler as the engine joins them, on a simulated clock.
struct Server : SchedulerRig {
  explicit Server(int max_waiting = 100000)
      : SchedulerRig(kLimits, test::answer_with(Ids(4000, 70)), {.itl_target_seconds = 0.02}),
        mailbox({.slots = kLimits.slots, .max_waiting = max_waiting, .max_waiting_tokens = 1 << 30}) {
    seconds = machine;
  }
  std::optional<Refused> offer(Request request) {
    auto sink = [this](RequestOutput&& piece) {
      if (piece.finish == FinishReason::none) return;
      (piece.timed_out ? late : in_time) += 1;
    };
    return mailbox.offer({std::move(request), sink, std::make_shared<std::atomic<bool>>(false), now});
  }
  void serve() {
    std::vector<Pending> mail;
    mailbox.take(false, mail);
    for (auto& pending : mail) scheduler.add(std::move(pending));
    scheduler.end_early(now);
    scheduler.admit(now);
    mailbox.publish(scheduler.load());
    if (scheduler.busy()) {
      turn();
    } else {
      advance(1e-3);
    }
    mailbox.publish(scheduler.load());
  }

  Mailbox mailbox;
  int in_time = 0, late = 0;
};

struct Outcome {
  int asked = 0, refused = 0, in_time = 0, late = 0;
  double goodput = 0;  // requests that ended in time, a second
};

/// Requests of 20 to 200 prompt tokens, 10 to 50 answer tokens and 2 seconds, `rate` a second.
Outcome load_server(double rate, double seconds, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> gap(rate);
  Server server;
  Outcome outcome;
  const auto begin = server.now;
  auto elapsed = [&] { return std::chrono::duration<double>(server.now - begin).count(); };
  for (double next = gap(random); elapsed() < seconds;) {
    for (; next <= elapsed(); next += gap(random)) {
      Request request;
      request.prompt = Ids(20 + random() % 180, static_cast<TokenId>(300 + random() % 1000));
      request.max_tokens = 10 + static_cast<int>(random() % 40);
      request.deadline = server.now + std::chrono::seconds(2);
      ++outcome.asked;
      outcome.refused += server.offer(std::move(request)).has_value();
    }
    server.serve();
  }
  outcome.in_time = server.in_time;
  outcome.late = server.late;
  outcome.goodput = server.in_time / elapsed();
  return outcome;
}

TEST_CASE(
    "under twice the load that can be served, what is admitted ends in time and goodput stays at its peak") {
  double peak = 0;
  for (const double rate : {8.0, 10.0, 12.0, 14.0, 16.0}) {
    peak = std::max(peak, load_server(rate, 60, 1).goodput);
  }
  const Outcome over = load_server(28, 60, 2);
  MESSAGE("peak ", peak, " requests/s, overloaded ", over.goodput, "; asked ", over.asked, ", refused ",
          over.refused, ", in time ", over.in_time, ", late ", over.late);
  CHECK(over.goodput > 0.95 * peak);
  CHECK(over.late < 0.01 * (over.in_time + over.late));
  CHECK(over.refused > 0.3 * over.asked);
}

TEST_CASE("at half the load nothing is refused and nothing is late") {
  const Outcome outcome = load_server(6, 60, 3);
  CHECK(outcome.refused == 0);
  CHECK(outcome.late == 0);
}

TEST_CASE("who comes back when he was told to is admitted") {
  std::mt19937 random(5);
  int admitted = 0, told = 0;
  for (int round = 0; round < 30; ++round) {
    Server server;
    const auto ask = [&](double timeout) {
      Request request;
      request.prompt = Ids(20 + random() % 180, static_cast<TokenId>(300 + random() % 1000));
      request.max_tokens = 10 + static_cast<int>(random() % 40);
      if (timeout > 0) request.deadline = server.now + std::chrono::milliseconds(int(timeout * 1000));
      return server.offer(std::move(request));
    };
    for (int i = 0; i < 200; ++i) {
      if (i < 50) ask(0);
      server.serve();
    }
    for (auto waiting = 50 + random() % 200; waiting > 0; --waiting) ask(0);
    server.serve();
    const auto refused = ask(1.5);
    if (!refused) continue;
    ++told;
    const auto back = server.now + std::chrono::milliseconds(int(refused->retry_after_seconds * 1000));
    while (server.now < back) server.serve();
    admitted += !ask(1.5).has_value();
  }
  CHECK(told > 20);
  CHECK(admitted > 0.85 * told);
}

TEST_CASE("a request that no idle engine could serve in time is let try where it can start in time") {
  Server server;
  for (int i = 0; i < 20; ++i) {
    Request request;
    request.prompt = {10};
    request.max_tokens = 10;
    server.offer(std::move(request));
    server.serve();
  }
  Request request;
  request.prompt = {10};
  request.max_tokens = 4000;
  request.deadline = server.now + std::chrono::seconds(1);
  CHECK_FALSE(server.offer(std::move(request)));
}

TEST_CASE("a load of tasks of lower tiers does not keep the priority tier waiting") {
  const auto p99 = [](bool others) {
    std::mt19937 random(7);
    Server server;
    std::vector<double> waits;
    for (int i = 0; i < 20000; ++i) {
      if (others && i % 4 == 0) {
        Request request;
        request.prompt = Ids(100, static_cast<TokenId>(random() % 1000));
        request.max_tokens = 30;
        request.tier = 1 + static_cast<int>(random() % 2);
        if (server.mailbox.load().waiting < 50) server.offer(std::move(request));
      }
      if (i % 50 == 0) {
        Request request;
        request.prompt = Ids(40, static_cast<TokenId>(random() % 1000));
        request.max_tokens = 10;
        request.tier = 0;
        const auto submitted = server.now;
        server.mailbox.offer(
            {std::move(request),
             [&waits, submitted](RequestOutput&& piece) {
               if (piece.finish == FinishReason::none) return;
               waits.push_back(std::chrono::duration<double>(piece.times.first_token - submitted).count());
             },
             std::make_shared<std::atomic<bool>>(false), submitted});
      }
      server.serve();
    }
    std::sort(waits.begin(), waits.end());
    return waits[waits.size() * 99 / 100];
  };
  const double quiet = p99(false), loaded = p99(true);
  MESSAGE("P99 to the first token of the priority tier: quiet ", quiet, " s, loaded ", loaded, " s");
  CHECK(loaded < 0.1);  // a queue of 50 takes seconds
}

}  // namespace
}  // namespace grokd

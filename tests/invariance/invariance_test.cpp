// docs/numerics.md, section 9: tokens and the bits of their log-probabilities do not depend on how they were
// run.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>

#include "tests/support/model_harness.h"

using namespace grokd;
using namespace grokd::test;

namespace {

/// Tokens and the bits of their log-probabilities.
using Answer = std::vector<std::pair<TokenId, std::uint32_t>>;

struct Ask {
  std::vector<TokenId> prompt;
  int count = 0;
  kernels::SamplingRow row;
};

constexpr int kWhole = 1 << 20;  // a chunk that takes any prompt

/// One request on its way: the next piece to feed, then its sampled tokens.
class Run {
 public:
  Run(ModelHarness& m, const Ask& ask, int chunk)
      : m_(m), ask_(ask), chunk_(chunk), sequence_(m.new_sequence(int(ask.prompt.size()) + ask.count)) {}
  bool done() const { return int(answer.size()) == ask_.count; }
  void leave() { m_.release(sequence_); }

  ModelHarness::Piece next() {
    if (!answer.empty()) return {&sequence_, {answer.back().first}};
    const int n = std::min<int>(chunk_, int(ask_.prompt.size()) - fed_);
    const auto first = ask_.prompt.begin() + fed_;
    fed_ += n;
    return {&sequence_, {first, first + n}};
  }
  void take(const std::vector<float>& logits) {
    if (fed_ < int(ask_.prompt.size())) return;
    ask_.row.draw = answer.size();
    const auto token = m_.sample(logits, ask_.row);
    answer.emplace_back(token.id, std::bit_cast<std::uint32_t>(token.logprob));
  }
  Answer answer;

 private:
  ModelHarness& m_;
  Ask ask_;
  int chunk_, fed_ = 0;
  ModelHarness::Sequence sequence_;
};

Answer alone(ModelHarness& m, const Ask& ask, int chunk = kWhole) {
  Run run(m, ask, chunk);
  while (!run.done()) run.take(m.step({run.next()})[0]);
  run.leave();
  return run.answer;
}

std::vector<TokenId> random_prompt(const ModelConfig& config, std::mt19937& random, int length) {
  std::vector<TokenId> ids(length);
  for (TokenId& id : ids) id = 4 + static_cast<int>(random() % (config.vocab_size - 4));
  return ids;
}

Ask random_ask(const ModelConfig& config, std::mt19937& random) {
  Ask ask;
  ask.prompt = random_prompt(config, random, 1 + static_cast<int>(random() % 150));
  ask.count = 1 + static_cast<int>(random() % 24);
  ask.row.temperature = random() % 2 ? 0.0 : 0.9;
  ask.row.top_p = 0.95;
  ask.row.seed = random();
  return ask;
}

/// The request among up to `others` neighbours that arrive and leave at random, in random chunks.
Answer in_company(ModelHarness& m, const Ask& ask, int others, std::mt19937& random) {
  std::vector<std::unique_ptr<Run>> neighbours;
  Run run(m, ask, 1 + static_cast<int>(random() % 64));
  while (!run.done()) {
    while (static_cast<int>(neighbours.size()) < others) {
      neighbours.push_back(
          std::make_unique<Run>(m, random_ask(m.config(), random), 1 + static_cast<int>(random() % 20)));
    }
    std::vector<ModelHarness::Piece> pieces;
    const std::size_t place = random() % (neighbours.size() + 1);
    for (const auto& n : neighbours) pieces.push_back(n->next());
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(place), run.next());
    const auto logits = m.step(pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i != place) neighbours[i - (i > place)]->take(logits[i]);
    }
    run.take(logits[place]);
    std::erase_if(neighbours, [&](const auto& n) {
      const bool leaves = n->done() || random() % 10 == 0;
      if (leaves) n->leave();
      return leaves;
    });
  }
  for (const auto& n : neighbours) n->leave();
  run.leave();
  return run.answer;
}

const std::vector<std::string>& model_dirs() {
  static const std::vector<std::string> dirs{
      GROKD_CHECKPOINT_DIR "/tiny-a",  GROKD_CHECKPOINT_DIR "/tiny-b",
      GROKD_CHECKPOINT_DIR "/tiny-c",  GROKD_VARIANT_DIR "/tiny-mixtral",
      GROKD_VARIANT_DIR "/tiny-llama", GROKD_VARIANT_DIR "/tiny-mistral",
      GROKD_VARIANT_DIR "/tiny-grok2", GROKD_DEMO_MODEL};
  return dirs;
}

/// Greedy and seeded requests, short and longer than a page.
std::vector<Ask> asks(const ModelConfig& config) {
  std::mt19937 random(1);
  std::vector<Ask> list;
  for (const int length : {1, 5, 63, 64, 65, 140}) {
    for (const double temperature : {0.0, 0.8}) {
      Ask ask{random_prompt(config, random, length), 20, {}};
      ask.row.temperature = temperature;
      ask.row.top_p = 0.9;
      ask.row.seed = random();
      list.push_back(ask);
    }
  }
  return list;
}

std::vector<Answer> answers_alone(ModelHarness& m, int chunk = kWhole) {
  std::vector<Answer> answers;
  for (const Ask& ask : asks(m.config())) answers.push_back(alone(m, ask, chunk));
  return answers;
}

/// Writes a NaN or an infinity into the first row's residual stream in the first layer.
class PoisonFirstRow final : public ForwardObserver {
 public:
  explicit PoisonFirstRow(ModelHarness& m) : m_(m) {}
  void after_attention(int layer, kernels::MatrixView<const float> h) override {
    if (layer != 0) return;
    const float value = steps_++ % 2 ? std::numeric_limits<float>::infinity() : std::nanf("");
    m_.backend().upload(const_cast<float*>(h.data + 1), &value, sizeof value);
  }
  void after_layer(int, kernels::MatrixView<const float>, const kernels::ExpertChoice&) override {}

 private:
  ModelHarness& m_;
  int steps_ = 0;
};

std::string best_isa() { return runnable_isas().back(); }

}  // namespace

TEST_CASE("a request gives the same bits alone and among 1 to 63 neighbours that arrive and leave") {
  for (const std::string& dir : model_dirs()) {
    CAPTURE(dir);
    ModelHarness m(dir, make_backend(best_isa(), 2), 64, 2000, 1024);
    const std::vector<Answer> expected = answers_alone(m);
    const std::vector<Ask> list = asks(m.config());
    std::mt19937 random(2);
    for (const int others : {1, 3, 7, 15, 63}) {
      CAPTURE(others);
      for (std::size_t i = 0; i<list.size(); i += others> 7 ? 5 : 1) {
        CHECK(in_company(m, list[i], others, random) == expected[i]);
      }
    }
  }
}

TEST_CASE("a prompt gives the same bits whole and in chunks of 1, 7 and 64") {
  for (const std::string& dir : model_dirs()) {
    CAPTURE(dir);
    ModelHarness m(dir, make_backend(best_isa(), 2));
    const std::vector<Answer> expected = answers_alone(m);
    for (const int chunk : {1, 7, 64}) {
      CAPTURE(chunk);
      CHECK(answers_alone(m, chunk) == expected);
    }
  }
}

TEST_CASE("every instruction set with 1, 2 and 4 threads, and the reference, give the same bits") {
  for (const std::string& dir : model_dirs()) {
    CAPTURE(dir);
    std::optional<std::vector<Answer>> expected;
    for (const std::string& isa : runnable_isas()) {
      for (const int threads : {1, 2, 4}) {
        CAPTURE(isa);
        CAPTURE(threads);
        ModelHarness m(dir, make_backend(isa, threads));
        std::vector<Answer> answers = answers_alone(m, 48);
        if (!expected) expected = answers;
        CHECK(answers == *expected);
      }
    }
    ModelHarness m(dir, make_backend("reference"));
    CHECK(answers_alone(m) == *expected);
  }
}

TEST_CASE("pages and slots carry no trace of the requests before") {
  for (const std::string& dir : model_dirs()) {
    CAPTURE(dir);
    ModelHarness fresh(dir, make_backend(best_isa(), 2));
    const std::vector<Answer> expected = answers_alone(fresh);
    ModelHarness used(dir, make_backend(best_isa(), 2), 64, 600, 24);  // so few pages that all are used again
    std::mt19937 random(3);
    for (int i = 0; i < 20; ++i) alone(used, random_ask(used.config(), random));
    CHECK(answers_alone(used) == expected);
  }
}

TEST_CASE("a poisoned neighbour changes nobody's bits") {
  for (const std::string& dir : model_dirs()) {
    CAPTURE(dir);
    ModelHarness m(dir, make_backend(best_isa(), 2));
    const std::vector<Answer> expected = answers_alone(m);
    const std::vector<Ask> list = asks(m.config());
    PoisonFirstRow poison(m);
    for (std::size_t i = 0; i < list.size(); ++i) {
      auto bad = m.new_sequence(64);
      Run run(m, list[i], kWhole);
      while (!run.done()) {
        bad.length = 0;
        const auto logits = m.step({{&bad, {5}}, run.next()}, &poison);
        CHECK(std::isnan(logits[0][0]));
        run.take(logits[1]);
      }
      run.leave();
      m.release(bad);
      CHECK(run.answer == expected[i]);
    }
  }
}

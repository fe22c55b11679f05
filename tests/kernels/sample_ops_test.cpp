// sample on every backend.

#include "tests/kernels/compare.h"
#include "tests/kernels/hard_inputs.h"

namespace grokd::test {
namespace {

using kernels::Backend;
using kernels::LogitBias;
using kernels::SampledToken;
using kernels::SamplingRow;
using kernels::TokenCount;
using kernels::TokenId;
using kernels::TokenLogprob;

constexpr int kTop = 20;

/// Logits like a model's: most far below a few, some equal.
std::vector<float> logits_of(std::uint64_t seed, int rows, int vocab) {
  Random random(seed);
  std::vector<float> x(static_cast<std::size_t>(rows) * vocab);
  for (float& value : x) {
    value = random.signed_unit() * 8;
    const int kind = random.below(10);
    if (kind < 3) value = std::rint(value);
    if (kind == 4) value += 6;
    if (kind == 5) value -= 60;
  }
  return x;
}

/// Settings on the heap, so that the spans of a row stay valid.
struct HostRows {
  std::vector<std::vector<TokenCount>> counts;
  std::vector<std::vector<LogitBias>> biases;
  std::vector<std::vector<std::uint64_t>> masks;
  std::vector<SamplingRow> rows;
};

SamplingRow random_settings(Random& random) {
  constexpr double kTemperatures[] = {0, 1e-6, 1, 0.7, 0.0101, 2, 1.3};
  constexpr double kTopP[] = {1, 1, 0.95, 0.9, 0.5, 0.1, 1e-9, 0.999999};
  constexpr double kMinP[] = {0, 0, 0.02, 0.3, 1};
  constexpr int kTopK[] = {0, 0, 1, 2, 7, 40, 1000000};
  SamplingRow row;
  row.temperature = kTemperatures[random.below(7)];
  row.top_p = kTopP[random.below(8)];
  row.min_p = kMinP[random.below(5)];
  row.top_k = kTopK[random.below(7)];
  row.seed = random.bits();
  row.draw = static_cast<std::uint32_t>(random.below(5000));
  row.choice = static_cast<std::uint32_t>(random.below(8));
  return row;
}

HostRows random_rows(std::uint64_t seed, int count, int vocab) {
  Random random(seed);
  HostRows host;
  for (int r = 0; r < count; ++r) {
    SamplingRow row = random_settings(random);
    std::vector<TokenCount> counts;
    std::vector<LogitBias> biases;
    std::vector<std::uint64_t> mask(static_cast<std::size_t>(vocab + 63) / 64, ~std::uint64_t{0});
    if (random.below(2) == 0) {
      row.repetition_penalty = random.below(2) == 0 ? 1.3 : 0.9;
      row.presence_penalty = 0.5 * random.below(3);
      row.frequency_penalty = 0.15 * random.below(4) - 0.1;
      for (TokenId id = random.below(3); id < vocab; id += 1 + random.below(4)) {
        counts.push_back({id, random.below(3), random.below(4)});
      }
    }
    if (random.below(2) == 0) {
      for (TokenId id = random.below(5); id < vocab; id += 1 + random.below(30)) {
        biases.push_back({id, random.signed_unit() * 100});
      }
    }
    if (random.below(3) == 0) {
      for (auto& word : mask) word = random.bits() & random.bits();
      mask[0] |= 1;
      row.mask = mask.data();
    }
    if (random.below(8) == 0) row.forced = random.below(vocab);
    host.counts.push_back(std::move(counts));
    host.biases.push_back(std::move(biases));
    host.masks.push_back(std::move(mask));
    host.rows.push_back(row);
  }
  for (int r = 0; r < count; ++r) {
    host.rows[r].counts = host.counts[r];
    host.rows[r].biases = host.biases[r];
  }
  return host;
}

Outcome run_sample(Backend& backend, const std::vector<float>& x, int vocab,
                   const std::vector<SamplingRow>& rows) {
  const int count = static_cast<int>(rows.size());
  const DeviceMatrix<float> logits(backend, x, count, vocab);
  std::vector<SampledToken> tokens(rows.size());
  std::vector<std::vector<TokenLogprob>> top(rows.size());
  for (int r = 0; r < count; ++r) {
    top[r].resize(static_cast<std::size_t>(std::min(vocab, r % 3 == 0 ? 0 : kTop)));
    tokens[r].top = top[r];
  }
  backend.sample(logits.view(), rows, tokens);
  Outcome outcome;
  for (int r = 0; r < count; ++r) {
    outcome.add(std::vector<std::int32_t>{tokens[r].id, tokens[r].kept, tokens[r].finite});
    if (tokens[r].finite) {
      outcome.add(std::vector<float>{tokens[r].logprob});
      for (const TokenLogprob& entry : top[r]) {
        outcome.add(std::vector<std::int32_t>{entry.id});
        outcome.add(std::vector<float>{entry.logprob});
      }
    }
  }
  return outcome;
}

kernels::StepLimits limits_of(int rows, int vocab) {
  kernels::StepLimits limits;
  limits.tokens = limits.logit_rows = limits.sequences = rows;
  limits.vocab = vocab;
  return limits;
}

}  // namespace

TEST_CASE("sample equals the reference over many settings and sizes of vocabulary") {
  for (const int vocab : {1, 2, 63, 64, 65, 300, 1000, 4099}) {
    const int rows = 24;
    Comparison compare(limits_of(rows, vocab));
    for (std::uint64_t seed = 40; seed < 52; ++seed) {
      CAPTURE(vocab);
      CAPTURE(seed);
      const HostRows host = random_rows(seed, rows, vocab);
      const auto x = logits_of(seed, rows, vocab);
      compare.check([&](Backend& backend) { return run_sample(backend, x, vocab, host.rows); });
    }
  }
}

TEST_CASE("sample equals the reference where all logits are equal, far apart or huge") {
  const int vocab = 500, rows = 8;
  Comparison compare(limits_of(rows, vocab));
  const HostRows host = random_rows(53, rows, vocab);
  for (const float size : {0.0f, 1e-20f, 200.0f, 1e30f}) {
    std::vector<float> x = hard_floats(54, static_cast<std::size_t>(rows) * vocab, size);
    std::vector<SamplingRow> settings = host.rows;
    for (SamplingRow& row : settings) row.temperature = 1;
    CAPTURE(size);
    compare.check([&](Backend& backend) { return run_sample(backend, x, vocab, settings); });
  }
}

TEST_CASE("a NaN or infinite logit is reported and touches no other row") {
  const int vocab = 130, rows = 5;
  const HostRows host = random_rows(55, rows, vocab);
  const auto clean = logits_of(56, rows, vocab);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits_of(rows, vocab));
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      for (const int place : {0, 64, vocab - 1}) {
        std::vector<float> x = clean;
        x[2 * vocab + place] = bad;
        const DeviceMatrix<float> logits(*backend, x, rows, vocab), unspoilt(*backend, clean, rows, vocab);
        std::vector<SampledToken> actual(rows), expected(rows);
        backend->sample(logits.view(), host.rows, actual);
        backend->sample(unspoilt.view(), host.rows, expected);
        for (int r = 0; r < rows; ++r) {
          CHECK(actual[r].finite == (r != 2));
          CHECK(actual[r].id == (r == 2 ? -1 : expected[r].id));
          if (r != 2) CHECK(actual[r].logprob == expected[r].logprob);
        }
      }
    }
  }
}

TEST_CASE("a forced token is scored by the raw logits and nothing is drawn") {
  const int vocab = 90;
  const auto x = logits_of(57, 1, vocab);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits_of(1, vocab));
    SamplingRow row;
    const LogitBias bias{7, 100};
    row.biases = {&bias, 1};
    row.forced = 7;
    std::vector<TokenLogprob> top(static_cast<std::size_t>(vocab));
    SampledToken token;
    token.top = top;
    const DeviceMatrix<float> logits(*backend, x, 1, vocab);
    backend->sample(logits.view(), {&row, 1}, {&token, 1});
    CHECK(token.id == 7);
    CHECK(token.kept == 0);
    const auto entry = std::find_if(top.begin(), top.end(), [](const TokenLogprob& t) { return t.id == 7; });
    REQUIRE(entry != top.end());
    CHECK(token.logprob == entry->logprob);
  }
}

TEST_CASE("where the mask allows nothing, no token is drawn") {
  const int vocab = 70;
  const std::uint64_t mask[2] = {0, 0};
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits_of(1, vocab));
    for (const double temperature : {0.0, 1.0}) {
      SamplingRow row;
      row.mask = mask;
      row.temperature = temperature;
      SampledToken token;
      const DeviceMatrix<float> logits(*backend, logits_of(58, 1, vocab), 1, vocab);
      backend->sample(logits.view(), {&row, 1}, {&token, 1});
      CHECK(token.id == -1);
      CHECK(token.kept == 0);
      CHECK(token.finite);
    }
  }
}

}  // namespace grokd::test

// linear, route, experts and logits on every backend.

#include "tests/kernels/compare.h"
#include "tests/kernels/hard_inputs.h"

namespace grokd::test {
namespace {

using kernels::Backend;
using kernels::LinearSource;
using kernels::StepLimits;

constexpr int kMostRows = 70;

/// Host memory behind a LinearSource.
struct HostMatrix {
  int in, out, scale_rows;
  std::vector<std::int8_t> weights;
  std::vector<float> scales;

  HostMatrix(std::uint64_t seed, int inputs, int outputs, int scale_groups)
      : in(inputs),
        out(outputs),
        scale_rows(scale_groups),
        weights(hard_weights(seed, static_cast<std::size_t>(inputs) * outputs)),
        scales(positive_scales(seed + 1, static_cast<std::size_t>(scale_groups) * outputs)) {}

  LinearSource source() const { return {{weights.data(), in, out}, {scales.data(), scale_rows, out}}; }
};

/// Quantised on the backend itself; ops before this one have their own tests.
kernels::QuantisedBuffer quantised(Backend& backend, const std::vector<float>& x, int rows, int cols,
                                   int groups) {
  const DeviceMatrix<float> device(backend, x, rows, cols);
  auto out = backend.allocate_quantised(rows, cols, groups);
  backend.quantise(device.view(), out.view(rows));
  return out;
}

std::vector<float> spoiled(std::uint64_t seed, int rows, int cols, int first_kind = 0) {
  std::vector<float> x = hard_floats(seed, static_cast<std::size_t>(rows) * cols, 3);
  spoil_rows(x, cols, first_kind);
  return x;
}

Outcome run_linear(Backend& backend, const std::vector<float>& x, int rows,
                   const std::vector<LinearSource>& sources, int groups) {
  const auto weights = backend.pack_linear(sources, groups);
  const auto codes = quantised(backend, x, rows, weights.in, groups);
  const DeviceMatrix<float> y(backend, rows, weights.out);
  backend.linear(codes.view(rows), weights, y.view());
  Outcome outcome;
  outcome.add(y.read());
  return outcome;
}

struct ExpertShape {
  int width, ffn, experts, per_token, groups;
};

struct HostExperts {
  std::vector<HostMatrix> matrices;  // gate, up, down of each expert

  explicit HostExperts(const ExpertShape& shape) {
    for (int e = 0; e < shape.experts; ++e) {
      const auto seed = static_cast<std::uint64_t>(100 * e + 1);
      matrices.emplace_back(seed, shape.width, shape.ffn, 1);
      matrices.emplace_back(seed + 20, shape.width, shape.ffn, 1);
      matrices.emplace_back(seed + 40, shape.ffn, shape.width, shape.groups);
    }
  }
  std::vector<kernels::ExpertSource> sources() const {
    std::vector<kernels::ExpertSource> result;
    for (std::size_t i = 0; i < matrices.size(); i += 3) {
      result.push_back({matrices[i].source(), matrices[i + 1].source(), matrices[i + 2].source()});
    }
    return result;
  }
};

struct HostChoice {
  std::vector<std::int32_t> experts;
  std::vector<float> gates;
};

/// Distinct experts for each token, one in six skipped; token 3 has no expert at all, token 4 NaN gates.
HostChoice random_choice(const ExpertShape& shape, int tokens) {
  Random random(11);
  HostChoice choice;
  for (int t = 0; t < tokens; ++t) {
    const int first = random.below(shape.experts);
    for (int j = 0; j < shape.per_token; ++j) {
      const bool skipped = t == 3 || random.below(6) == 0;
      choice.experts.push_back(skipped ? -1 : (first + j) % shape.experts);
      choice.gates.push_back(t == 4 ? std::nanf("") : 0.5f + 0.5f * random.signed_unit());
    }
  }
  return choice;
}

Outcome run_experts(Backend& backend, const ExpertShape& shape, const HostExperts& host,
                    const HostChoice& choice, const std::vector<float>& x, int rows,
                    kernels::Activation activation = kernels::Activation::gelu) {
  auto weights = backend.pack_experts(host.sources(), shape.groups);
  weights.activation = activation;
  const auto codes = quantised(backend, x, rows, shape.width, 1);
  const DeviceMatrix<std::int32_t> expert(backend, choice.experts, rows, shape.per_token);
  const DeviceMatrix<float> gate(backend, choice.gates, rows, shape.per_token), y(backend, rows, shape.width);
  backend.experts(codes.view(rows), {expert.data(), gate.data(), rows, shape.per_token}, weights, y.view());
  Outcome outcome;
  outcome.add(y.read());
  return outcome;
}

StepLimits limits_of(const ExpertShape& shape) {
  StepLimits limits;
  limits.tokens = limits.logit_rows = kMostRows;
  limits.sequences = 1;
  limits.width = shape.width;
  limits.ffn = shape.ffn;
  limits.experts = shape.experts;
  limits.per_token = shape.per_token;
  limits.groups = shape.groups;
  return limits;
}

}  // namespace

TEST_CASE("linear equals the reference for odd sizes, all group counts and any number of rows") {
  StepLimits limits = limits_of({1024, 1, 1, 1, 16});
  Comparison compare(limits);
  struct Shape {
    int length, out, groups, scale_rows;
  };
  constexpr Shape kShapes[] = {{1, 1, 1, 1},    {3, 5, 2, 2},    {11, 5, 8, 8},   {64, 64, 1, 1},
                               {65, 33, 1, 1},  {16, 48, 4, 2},  {33, 130, 8, 1}, {64, 96, 16, 4},
                               {127, 17, 2, 2}, {512, 16, 2, 1}, {100, 257, 1, 1}};
  for (const Shape& shape : kShapes) {
    const int in = shape.length * shape.groups;
    const HostMatrix matrix(12, in, shape.out, shape.scale_rows);
    for (const int rows : {1, 2, 3, 4, 5, 7, 8, 13, 16, 33, kMostRows}) {
      CAPTURE(in);
      CAPTURE(shape.out);
      CAPTURE(rows);
      const auto x = spoiled(13, rows * shape.groups, shape.length, rows);
      compare.check(
          [&](Backend& backend) { return run_linear(backend, x, rows, {matrix.source()}, shape.groups); });
    }
  }
}

TEST_CASE("matrices side by side give the columns that each gives alone") {
  Comparison compare(limits_of({96, 1, 1, 1, 1}));
  const HostMatrix a(14, 96, 37, 1), b(15, 96, 16, 1), c(16, 96, 3, 1);
  const auto x = spoiled(17, 9, 96);
  compare.check([&](Backend& backend) {
    return run_linear(backend, x, 9, {a.source(), b.source(), c.source()}, 1);
  });
}

TEST_CASE("sums as large as they can get do not overflow") {
  constexpr int kInputs = 65793, kOutputs = 3;
  Comparison compare(limits_of({kInputs, 1, 1, 1, 1}));
  HostMatrix matrix(18, kInputs, kOutputs, 1);
  for (int k = 0; k < kInputs; ++k) {
    matrix.weights[k * kOutputs] = -128;
    matrix.weights[k * kOutputs + 1] = 127;
  }
  for (const float value : {1.0f, -1.0f}) {
    const std::vector<float> x(2 * kInputs, value);
    compare.check([&](Backend& backend) { return run_linear(backend, x, 2, {matrix.source()}, 1); });
  }
}

TEST_CASE("matrices that break the rules of the groups are refused") {
  const HostMatrix matrix(19, 24, 4, 4);
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    const LinearSource source = matrix.source();
    CHECK_THROWS_AS(backend->pack_linear({&source, 1}, 2),
                    std::invalid_argument);  // scales finer than groups
    CHECK_THROWS_AS(backend->pack_linear({&source, 1}, 16), std::invalid_argument);  // 24 inputs, 16 groups
    CHECK_THROWS_AS(backend->pack_linear({&source, 1}, 12), std::invalid_argument);  // not a power of two
    CHECK_NOTHROW(backend->pack_linear({&source, 1}, 8));
  }
}

TEST_CASE("route equals the reference, with ties, caps and poisoned rows") {
  Comparison compare(limits_of({513, 1, 16, 5, 1}));
  for (const int width : {1, 40, 64, 130, 513}) {
    for (const int experts : {2, 5, 8, 16}) {
      std::vector<float> w = hard_floats(20, static_cast<std::size_t>(width) * experts, 0.5f);
      for (int d = 0; d < width; ++d) w[d * experts + experts - 1] = w[d * experts];  // an exact tie
      for (const int rows : {1, 3, kMostRows}) {
        const auto x = spoiled(21, rows, width, rows);
        for (const float cap : {0.0f, 30.0f}) {
          for (const bool renormalise : {false, true}) {
            CAPTURE(width);
            CAPTURE(experts);
            const int count = std::min(experts, rows == 3 ? 1 : 5);
            compare.check([&](Backend& backend) {
              const DeviceMatrix<float> device_x(backend, x, rows, width),
                  device_w(backend, w, width, experts);
              const DeviceMatrix<float> gate(backend, rows, count);
              const DeviceMatrix<std::int32_t> expert(backend, rows, count);
              backend.route(device_x.view(), device_w.view(), cap, renormalise,
                            {expert.data(), gate.data(), rows, count});
              Outcome outcome;
              outcome.add(expert.read());
              outcome.add(gate.read());
              return outcome;
            });
          }
        }
      }
    }
  }
}

TEST_CASE("experts equal the reference, with skipped experts and poisoned rows") {
  constexpr ExpertShape kShapes[] = {{16, 24, 8, 2, 8}, {40, 88, 8, 2, 8},  {64, 64, 2, 1, 1},
                                     {33, 52, 4, 3, 4}, {130, 48, 5, 2, 2}, {64, 160, 8, 8, 16}};
  for (const ExpertShape& shape : kShapes) {
    Comparison compare(limits_of(shape));
    const HostExperts host(shape);
    for (const int rows : {1, 2, 5, 8, 31, kMostRows}) {
      CAPTURE(shape.width);
      CAPTURE(rows);
      const HostChoice choice = random_choice(shape, rows);
      const auto x = spoiled(22, rows, shape.width, rows);
      for (const auto activation : {kernels::Activation::gelu, kernels::Activation::silu}) {
        compare.check(
            [&](Backend& backend) { return run_experts(backend, shape, host, choice, x, rows, activation); });
      }
    }
  }
}

TEST_CASE("experts equal the reference when all tokens want the same ones") {
  constexpr ExpertShape kShape{48, 40, 8, 2, 8};
  Comparison compare(limits_of(kShape));
  const HostExperts host(kShape);
  HostChoice choice;
  for (int t = 0; t < kMostRows; ++t) {
    choice.experts.insert(choice.experts.end(), {5, 2});
    choice.gates.insert(choice.gates.end(), {0.625f, 0.3f});
  }
  const auto x = spoiled(23, kMostRows, kShape.width);
  compare.check([&](Backend& backend) { return run_experts(backend, kShape, host, choice, x, kMostRows); });
}

TEST_CASE("logits equal the reference, capped and uncapped") {
  for (const int width : {8, 64, 65, 130}) {
    for (const int vocab : {1, 17, 64, 257}) {
      StepLimits limits = limits_of({width, 1, 1, 1, 1});
      limits.vocab = vocab;
      Comparison compare(limits);
      std::vector<float> embeddings = hard_floats(24, static_cast<std::size_t>(vocab) * width, 2);
      for (int v = 3; v < vocab; v += 5) spoil_row(embeddings, width, v, v % kRowKinds);
      for (const int rows : {1, 2, 7, 16, 33}) {
        const auto x = spoiled(25, rows, width, rows);
        for (const float cap : {0.0f, 50.0f}) {
          CAPTURE(width);
          CAPTURE(vocab);
          CAPTURE(rows);
          compare.check([&](Backend& backend) {
            const auto head = backend.pack_head({embeddings.data(), vocab, width});
            const auto codes = quantised(backend, x, rows, width, 1);
            const DeviceMatrix<float> y(backend, rows, vocab);
            backend.logits(codes.view(rows), head, 0.5773502691896257f, cap, y.view());
            Outcome outcome;
            outcome.add(y.read());
            return outcome;
          });
        }
      }
    }
  }
}

TEST_CASE("logits of the largest codes do not overflow") {
  constexpr int kWidth = 6144, kVocab = 5;
  StepLimits limits = limits_of({kWidth, 1, 1, 1, 1});
  limits.vocab = kVocab;
  Comparison compare(limits);
  std::vector<float> embeddings = hard_floats(26, kVocab * kWidth, 1);
  spoil_row(embeddings, kWidth, 0, 8);
  spoil_row(embeddings, kWidth, 1, 9);
  const std::vector<float> x(kWidth, -2.0f);
  compare.check([&](Backend& backend) {
    const auto head = backend.pack_head({embeddings.data(), kVocab, kWidth});
    const auto codes = quantised(backend, x, 1, kWidth, 1);
    const DeviceMatrix<float> y(backend, 1, kVocab);
    backend.logits(codes.view(1), head, 1.0f, 0.0f, y.view());
    Outcome outcome;
    outcome.add(y.read());
    return outcome;
  });
}

}  // namespace grokd::test

// embed, norm, residual and quantise on every backend.

#include "tests/kernels/compare.h"
#include "tests/kernels/hard_inputs.h"

namespace grokd::test {
namespace {

using kernels::Backend;
using kernels::StepLimits;

constexpr float kEps = 1e-5f;
constexpr int kMostRows = 70;
constexpr int kWidths[] = {1, 2, 7, 63, 64, 65, 96, 130, 200, 513, 1000};
constexpr int kRows[] = {1, 2, 3, 5, 17, kMostRows};

StepLimits limits_of_width(int width, int groups = 1) {
  StepLimits limits;
  limits.tokens = limits.logit_rows = kMostRows;
  limits.sequences = 1;
  limits.width = width;
  limits.groups = groups;
  return limits;
}

std::vector<float> spoiled(std::uint64_t seed, int rows, int cols) {
  std::vector<float> x = hard_floats(seed, static_cast<std::size_t>(rows) * cols, 3);
  spoil_rows(x, cols, static_cast<int>(seed) % kRowKinds);
  return x;
}

}  // namespace

TEST_CASE("embed equals the reference") {
  Comparison compare(limits_of_width(200));
  for (const int width : {1, 3, 64, 100, 200}) {
    const int vocab = 37;
    const std::vector<float> table = spoiled(1, vocab, width);
    for (const int rows : kRows) {
      Random random(2);
      std::vector<kernels::TokenId> ids;
      for (int t = 0; t < rows; ++t) ids.push_back(random.below(vocab));
      compare.check([&](Backend& backend) {
        const DeviceMatrix<float> device(backend, table, vocab, width), h(backend, rows, width);
        backend.embed(ids, device.view(), 78.38367176906169f, h.view());
        Outcome outcome;
        outcome.add(h.read());
        return outcome;
      });
    }
  }
}

TEST_CASE("norm_quantise equals the reference, for all rows and for a choice of rows") {
  Comparison compare(limits_of_width(1000));
  for (const int width : kWidths) {
    const auto gain = hard_floats(3, static_cast<std::size_t>(width), 2);
    for (const int rows : kRows) {
      CAPTURE(width);
      CAPTURE(rows);
      const auto h = spoiled(static_cast<std::uint64_t>(rows), rows, width);
      const std::vector<std::int32_t> some = {rows - 1, 0, rows / 2};
      compare.check([&](Backend& backend) {
        const DeviceMatrix<float> device(backend, h, rows, width), device_gain(backend, gain, 1, width);
        const DeviceMatrix<float> normed(backend, rows, width);
        const auto all = backend.allocate_quantised(rows, width, 1),
                   chosen = backend.allocate_quantised(3, width, 1);
        backend.norm_quantise(device.view(), {}, device_gain.data(), kEps, normed.view(), all.view(rows));
        backend.norm_quantise(device.view(), some, device_gain.data(), kEps, {}, chosen.view(3));
        Outcome outcome;
        outcome.add(normed.read());
        outcome.add(read_quantised(backend, all.view(rows)));
        outcome.add(read_quantised(backend, chosen.view(3)));
        return outcome;
      });
    }
  }
}

TEST_CASE("the residual equals the reference, with and without a norm, alone and with the next norm") {
  Comparison compare(limits_of_width(1000));
  for (const int width : kWidths) {
    const auto post = hard_floats(4, static_cast<std::size_t>(width), 2);
    const auto next = hard_floats(5, static_cast<std::size_t>(width), 2);
    for (const int rows : kRows) {
      CAPTURE(width);
      CAPTURE(rows);
      const auto h = hard_floats(6, static_cast<std::size_t>(rows) * width, 3);
      const auto y = spoiled(static_cast<std::uint64_t>(rows) + 7, rows, width);
      compare.check([&](Backend& backend) {
        const DeviceMatrix<float> device_y(backend, y, rows, width), normed(backend, rows, width);
        const DeviceMatrix<float> device_post(backend, post, 1, width), device_next(backend, next, 1, width);
        const DeviceMatrix<float> added(backend, h, rows, width), plain(backend, h, rows, width),
            fused(backend, h, rows, width);
        const auto out = backend.allocate_quantised(rows, width, 1);
        backend.residual_norm(device_y.view(), device_post.data(), kEps, added.view());
        backend.residual_norm(device_y.view(), nullptr, kEps, plain.view());
        backend.residual_norm_quantise(device_y.view(), device_post.data(), fused.view(), device_next.data(),
                                       kEps, normed.view(), out.view(rows));
        CHECK(first_difference(fused.read(), added.read()) == "");
        Outcome outcome;
        outcome.add(added.read());
        outcome.add(plain.read());
        outcome.add(normed.read());
        outcome.add(read_quantised(backend, out.view(rows)));
        backend.residual_norm_quantise(device_y.view(), nullptr, fused.view(), device_next.data(), kEps, {},
                                       out.view(rows));
        outcome.add(read_quantised(backend, out.view(rows)));
        return outcome;
      });
    }
  }
}

TEST_CASE("rows that are wider apart than they are long are read and written in place") {
  Comparison compare(limits_of_width(130));
  const int rows = 5, width = 130, stride = 147;
  const auto y = spoiled(8, rows, stride), h = hard_floats(9, static_cast<std::size_t>(rows) * stride, 3);
  const auto gain = hard_floats(10, width, 2);
  compare.check([&](Backend& backend) {
    const DeviceMatrix<float> device_y(backend, y, rows, stride), device_h(backend, h, rows, stride);
    const DeviceMatrix<float> device_gain(backend, gain, 1, width);
    const auto out = backend.allocate_quantised(rows, width, 1),
               codes = backend.allocate_quantised(rows, width, 2);
    const kernels::MatrixView<float> narrow_y(device_y.data(), rows, width, stride);
    const kernels::MatrixView<float> narrow_h(device_h.data(), rows, width, stride);
    backend.residual_norm_quantise(narrow_y, device_gain.data(), narrow_h, device_gain.data(), kEps, {},
                                   out.view(rows));
    backend.quantise(narrow_y, codes.view(rows));
    Outcome outcome;
    outcome.add(device_h.read());
    outcome.add(read_quantised(backend, out.view(rows)));
    outcome.add(read_quantised(backend, codes.view(rows)));
    return outcome;
  });
}

TEST_CASE("quantise equals the reference for every number of groups") {
  Comparison compare(limits_of_width(16 * 193, 16));
  for (const int groups : {1, 2, 4, 8, 16}) {
    for (const int length : {1, 3, 11, 64, 193}) {
      for (const int rows : {1, 3, kMostRows}) {
        CAPTURE(groups);
        CAPTURE(length);
        // One kind of row for each group.
        const auto x = spoiled(static_cast<std::uint64_t>(rows + length), rows * groups, length);
        compare.check([&](Backend& backend) {
          const DeviceMatrix<float> device(backend, x, rows, groups * length);
          const auto out = backend.allocate_quantised(rows, groups * length, groups);
          backend.quantise(device.view(), out.view(rows));
          Outcome outcome;
          outcome.add(read_quantised(backend, out.view(rows)));
          return outcome;
        });
      }
    }
  }
}

}  // namespace grokd::test

#pragma once
// Deterministic inputs that are hard on purpose: many magnitudes, outliers, and rows that are poisoned, zero,
// tiny, huge or all equal.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace grokd::test {

/// SplitMix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// 0 <= result < count
  int below(int count) { return static_cast<int>(bits() % static_cast<std::uint64_t>(count)); }
  /// -1 <= result < 1
  float signed_unit() { return static_cast<float>(static_cast<double>(bits() >> 11) * 0x1p-52 - 1.0); }

 private:
  std::uint64_t state_;
};

/// Mostly of size 1, some much smaller, one in fifty much larger.
inline std::vector<float> hard_floats(std::uint64_t seed, std::size_t count, float size = 1) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = random.signed_unit() * size;
    const int kind = random.below(50);
    if (kind == 0) value *= 64.0f;
    if (kind > 40) value *= 0.004f;
  }
  return values;
}

/// int8 weights over the whole range, -128 included.
inline std::vector<std::int8_t> hard_weights(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<std::int8_t> values(count);
  for (auto& value : values) {
    const int kind = random.below(16);
    value = static_cast<std::int8_t>(kind == 0 ? -128 : kind == 1 ? 127 : random.below(256) - 128);
  }
  return values;
}

inline std::vector<float> positive_scales(std::uint64_t seed, std::size_t count) {
  std::vector<float> values = hard_floats(seed, count, 0.01f);
  for (float& value : values) value = std::fabs(value) + 1e-4f;
  return values;
}

/// Kinds of rows that `spoil_rows` makes; as many rows as kinds meet them all.
inline constexpr int kRowKinds = 12;

/// Overwrites part of row `row`, `kind` < kRowKinds.
inline void spoil_row(std::vector<float>& x, int cols, int row, int kind) {
  float* values = x.data() + static_cast<std::ptrdiff_t>(row) * cols;
  const auto all = [&](auto function) {
    for (int i = 0; i < cols; ++i) values[i] = function(values[i]);
  };
  switch (kind) {
    case 0:
      break;
    case 1:
      all([](float) { return 0.0f; });
      break;
    case 2:
      values[cols / 2] = std::numeric_limits<float>::quiet_NaN();
      break;
    case 3:
      values[cols - 1] = std::numeric_limits<float>::infinity();
      break;
    case 4:
      values[0] = -std::numeric_limits<float>::infinity();
      break;
    case 5:
      all([](float v) { return v * 1e-32f; });
      break;  // below the quantiser's smallest
    case 6:
      all([](float v) { return v * 1e-42f; });
      break;  // denormal
    case 7:
      all([](float v) { return v * 1e30f; });
      break;  // its square overflows
    case 8:
      all([](float) { return 0.75f; });
      break;  // every code is the largest
    case 9:
      all([](float) { return -3.0f; });
      break;
    case 10:
      values[cols / 3] = 1e5f;
      break;  // one outlier: all other codes are small
    case 11:
      all([](float v) { return -v; });
      break;
    default:
      break;
  }
}

/// Each row of a kind of its own, beginning with `first_kind`.
inline void spoil_rows(std::vector<float>& x, int cols, int first_kind = 0) {
  const int rows = static_cast<int>(x.size()) / cols;
  for (int row = 0; row < rows; ++row) spoil_row(x, cols, row, (first_kind + row) % kRowKinds);
}

}  // namespace grokd::test

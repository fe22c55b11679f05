#include "kernels/reference/primitives.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace grokd::kernels::reference {

float sum_of_lanes(std::span<float, kLanes> lanes) {
  for (int s = kLanes / 2; s >= 1; s /= 2) {
    for (int j = 0; j < s; ++j) lanes[j] = lanes[j] + lanes[j + s];
  }
  return lanes[0];
}

float lanes_dot(std::span<const float> x, const float* y, std::ptrdiff_t y_stride) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& lane = lanes[i % kLanes];
    lane = std::fma(x[i], y[static_cast<std::ptrdiff_t>(i) * y_stride], lane);
  }
  return sum_of_lanes(lanes);
}

float tree(std::span<float> values) {
  for (std::size_t count = values.size(); count > 1; count /= 2) {
    for (std::size_t i = 0; i < count / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
  }
  return values[0];
}

float quantise_row(std::span<const float> x, int limit, std::int16_t* codes) {
  constexpr std::uint32_t kInfinityBits = 0x7f800000;
  constexpr std::uint32_t kSmallestBits = 0x0da24260;  // 1e-30
  std::uint32_t largest_bits = 0;
  for (const float value : x) {
    largest_bits = std::max(largest_bits, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
  }
  if (largest_bits >= kInfinityBits || largest_bits < kSmallestBits) {
    std::fill_n(codes, x.size(), std::int16_t{0});
    return largest_bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const auto largest = std::bit_cast<float>(largest_bits);
  const float inverse = static_cast<float>(limit) / largest;
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = static_cast<std::int16_t>(std::rint(x[i] * inverse));
  return largest / static_cast<float>(limit);
}

void rms_norm(std::span<const float> x, const float* gain, float eps, float* y) {
  const float sum_of_squares = lanes_dot(x, x.data());
  float r = std::numeric_limits<float>::quiet_NaN();
  if (std::isfinite(sum_of_squares)) {
    r = 1.0f / std::sqrt(sum_of_squares / static_cast<float>(x.size()) + eps);
  }
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = gain[i] * (x[i] * r);
}

}  // namespace grokd::kernels::reference

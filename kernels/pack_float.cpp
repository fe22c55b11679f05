#include "kernels/pack_float.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

namespace grokd::kernels {
namespace {

constexpr std::int32_t kInfinityBits = 0x7f800000, kTinyBits = 0x0da24260;  // docs/numerics.md, section 3

std::int32_t largest_bits(std::span<const float> run) {
  std::int32_t most = 0;
  for (const float x : run) most = std::max(most, std::bit_cast<std::int32_t>(x) & 0x7fffffff);
  return most;
}

}  // namespace

float pack_float_run(std::span<const float> run, std::int8_t* codes) {
  constexpr float kLargestCode = 127, kRounds = 0x1.8p23f;  // x + kRounds has no room for a fraction
  const std::int32_t bits = largest_bits(run);
  if (bits >= kInfinityBits || bits < kTinyBits) {
    std::fill_n(codes, run.size(), std::int8_t{0});
    return bits < kTinyBits ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const auto most = std::bit_cast<float>(bits);
  const float inverse = kLargestCode / most;
  for (std::size_t k = 0; k < run.size(); ++k)
    codes[k] = static_cast<std::int8_t>((run[k] * inverse + kRounds) - kRounds);
  return most / kLargestCode;
}

void pack_float_matrix(MatrixView<const float> w, int groups, MatrixView<std::int8_t> codes,
                       MatrixView<float> scales) {
  const std::ptrdiff_t length = w.rows / groups;
  std::vector<float> column(static_cast<std::size_t>(length));
  std::vector<std::int8_t> packed(column.size());
  for (std::ptrdiff_t g = 0; g < groups; ++g) {
    for (std::ptrdiff_t n = 0; n < w.cols; ++n) {
      for (std::ptrdiff_t k = 0; k < length; ++k) column[k] = w.row(g * length + k)[n];
      scales.row(g)[n] = pack_float_run(column, packed.data());
      for (std::ptrdiff_t k = 0; k < length; ++k) codes.row(g * length + k)[n] = packed[k];
    }
  }
}

}  // namespace grokd::kernels

#include "kernels/rope_table.h"

#include <bit>
#include <cmath>

namespace grokd::kernels {
namespace {

/// theta^(2/d). Square roots are correctly rounded everywhere; the last bit of a libm's pow is not.
double frequency_ratio(double theta, int head_size) {
  const auto half = static_cast<unsigned>(head_size / 2);
  if (!std::has_single_bit(half)) return std::pow(theta, 2.0 / head_size);
  double ratio = theta;
  for (unsigned n = half; n > 1; n /= 2) ratio = std::sqrt(ratio);
  return ratio;
}

}  // namespace

std::vector<double> rope_inverse(double theta, int head_size) {
  const double ratio = frequency_ratio(theta, head_size);
  std::vector<double> inverse;
  double power = 1.0;
  for (int i = 0; i < head_size / 2; ++i) {
    inverse.push_back(1.0 / power);
    power = power * ratio;
  }
  return inverse;
}

RopeTable make_rope_table(Backend& backend, double theta, int head_size, int positions,
                          const RopeScaling& scaling) {
  const std::vector<double> inverse = scale_frequencies(rope_inverse(theta, head_size), theta, scaling);
  const double amplitude = rope_amplitude(scaling);
  std::vector<float> cosines, sines;
  for (int position = 0; position < positions; ++position) {
    for (const double inv : inverse) {
      const double angle = static_cast<double>(position) * inv;
      cosines.push_back(static_cast<float>(std::cos(angle) * amplitude));
      sines.push_back(static_cast<float>(std::sin(angle) * amplitude));
    }
  }
  RopeTable table;
  table.positions = positions;
  table.half = head_size / 2;
  const std::size_t bytes = cosines.size() * sizeof(float);
  table.cos = backend.allocate(bytes);
  table.sin = backend.allocate(bytes);
  backend.upload(table.cos.data(), cosines.data(), bytes);
  backend.upload(table.sin.data(), sines.data(), bytes);
  return table;
}

void share_rope_table(Communicator& group, Backend& backend, RopeTable& table) {
  std::vector<float> values(static_cast<std::size_t>(table.positions) * static_cast<std::size_t>(table.half));
  for (Buffer* buffer : {&table.cos, &table.sin}) {
    backend.download(values.data(), buffer->data(), values.size() * sizeof(float));
    group.broadcast(values);
    backend.upload(buffer->data(), values.data(), values.size() * sizeof(float));
  }
}

}  // namespace grokd::kernels

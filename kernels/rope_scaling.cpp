#include "kernels/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace grokd::kernels {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double llama3(double inverse, const RopeScaling& s) {
  const double wavelength = kTwoPi / inverse;
  if (wavelength > s.original_context / s.low_freq) return inverse / s.factor;
  if (wavelength < s.original_context / s.high_freq) return inverse;
  const double smooth = (s.original_context / wavelength - s.low_freq) / (s.high_freq - s.low_freq);
  return ((1 - smooth) * inverse) / s.factor + smooth * inverse;
}

/// The part of the spectrum between which YaRN goes over from the old frequencies to the scaled ones.
struct Ramp {
  double low, high;
  Ramp(double theta, int head_size, const RopeScaling& s) {
    const auto dimension = [&](double rotations) {
      return head_size * std::log(s.original_context / (rotations * kTwoPi)) / (2 * std::log(theta));
    };
    low = std::max(std::floor(dimension(s.beta_fast)), 0.0);
    high = std::min(std::ceil(dimension(s.beta_slow)), head_size - 1.0);
    if (low == high) high += 0.001;
  }
  double kept(std::size_t i) const {
    return 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  }
};

}  // namespace

std::vector<double> scale_frequencies(std::vector<double> inverse, double theta, const RopeScaling& s) {
  if (s.kind == RopeScaling::Kind::linear) {
    for (double& value : inverse) value = value / s.factor;
  } else if (s.kind == RopeScaling::Kind::llama3) {
    for (double& value : inverse) value = llama3(value, s);
  } else if (s.kind == RopeScaling::Kind::yarn) {
    const Ramp ramp(theta, 2 * static_cast<int>(inverse.size()), s);
    for (std::size_t i = 0; i < inverse.size(); ++i) {
      const double kept = ramp.kept(i);
      inverse[i] = (inverse[i] / s.factor) * (1 - kept) + inverse[i] * kept;
    }
  }
  return inverse;
}

double rope_amplitude(const RopeScaling& s) {
  if (s.kind != RopeScaling::Kind::yarn) return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  return s.factor > 1 ? 0.1 * std::log(s.factor) + 1 : 1;
}

}  // namespace grokd::kernels

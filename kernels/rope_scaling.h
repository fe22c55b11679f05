#pragma once
// How models of long contexts change the frequencies of RoPE (docs/numerics.md, section 5).

#include <vector>

namespace grokd::kernels {

struct RopeScaling {
  enum class Kind { none, linear, llama3, yarn };
  Kind kind = Kind::none;
  double factor = 1;
  double original_context = 0;           // llama3, yarn: positions the model was first trained on
  double low_freq = 1, high_freq = 4;    // llama3
  double beta_fast = 32, beta_slow = 1;  // yarn
  double attention_factor = 0;           // yarn: of cos and sin; 0 = 0.1 ln(factor) + 1
  bool operator==(const RopeScaling&) const = default;
};

/// `inverse` [d/2] as scaled; each in f64.
std::vector<double> scale_frequencies(std::vector<double> inverse, double theta, const RopeScaling& scaling);

/// What cos and sin are multiplied by.
double rope_amplitude(const RopeScaling& scaling);

}  // namespace grokd::kernels

// The router and the experts (sections 5.7 and 5.8).

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels::reference {
namespace {

std::vector<float> router_logits(std::span<const float> x, MatrixView<const float> w, float cap) {
  std::vector<float> z(static_cast<std::size_t>(w.cols));
  for (std::size_t e = 0; e < z.size(); ++e) z[e] = soft_cap(lanes_dot(x, w.data + e, w.stride), cap);
  return z;
}

/// Softmax in rising order; a NaN anywhere makes every probability NaN.
std::vector<float> softmax(const std::vector<float>& z) {
  const float largest = *std::max_element(z.begin(), z.end());
  std::vector<float> p(z.size());
  float total = 0;
  for (std::size_t e = 0; e < z.size(); ++e) {
    p[e] = exp_f32(z[e] - largest);
    total = total + p[e];
  }
  for (float& value : p) value = value / total;
  if (std::isnan(total)) std::fill(p.begin(), p.end(), std::numeric_limits<float>::quiet_NaN());
  return p;
}

/// The `count` largest, in falling order, ties to the lower index; of NaNs the first ones.
void choose(std::vector<float> p, int count, std::int32_t* experts, float* gates) {
  std::vector<bool> taken(p.size());
  for (int j = 0; j < count; ++j) {
    std::size_t best = 0;
    while (taken[best]) ++best;
    for (std::size_t e = best + 1; e < p.size(); ++e) {
      if (!taken[e] && p[e] > p[best]) best = e;
    }
    taken[best] = true;
    experts[j] = static_cast<std::int32_t>(best);
    gates[j] = p[best];
  }
}

void divide_by_sum(float* gates, int count) {
  float sum = 0;
  for (int j = 0; j < count; ++j) sum = sum + gates[j];
  for (int j = 0; j < count; ++j) gates[j] = gates[j] / sum;
}

/// y_g of linear_1 for one expert and one token: [groups, width].
std::vector<float> expert_groups(const std::int16_t* codes, float code_scale, const PackedExpert& expert,
                                 Activation activation) {
  const auto activate = activation == Activation::silu ? silu_f32 : gelu_f32;
  const int ffn = expert.gate.out;
  const int groups = expert.down.groups, length = ffn / groups;
  std::vector<float> u(static_cast<std::size_t>(ffn)), v(u.size()), t(u.size());
  multiply(codes, &code_scale, expert.gate, u.data());
  multiply(codes, &code_scale, expert.up, v.data());
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = activate(u[i]) * v[i];

  std::vector<float> y(static_cast<std::size_t>(groups) * static_cast<std::size_t>(expert.down.out));
  std::vector<std::int16_t> inner(static_cast<std::size_t>(length));
  for (int g = 0; g < groups; ++g) {
    const std::span<const float> run(t.data() + static_cast<std::ptrdiff_t>(g) * length, inner.size());
    const float scale = quantise_row(run, kActivationCode, inner.data());
    multiply_group(inner.data(), scale, expert.down, g,
                   y.data() + static_cast<std::ptrdiff_t>(g) * expert.down.out);
  }
  return y;
}

}  // namespace

void ReferenceBackend::route(MatrixView<const float> x, MatrixView<const float> w, float cap,
                             bool renormalise, const ExpertChoice& choice) {
  for (int t = 0; t < choice.tokens; ++t) {
    const std::span<const float> row(x.row(t), static_cast<std::size_t>(x.cols));
    std::int32_t* experts = choice.expert + static_cast<std::ptrdiff_t>(t) * choice.per_token;
    float* gates = choice.gate + static_cast<std::ptrdiff_t>(t) * choice.per_token;
    choose(softmax(router_logits(row, w, cap)), choice.per_token, experts, gates);
    if (renormalise) divide_by_sum(gates, choice.per_token);
  }
}

void ReferenceBackend::prune(const ExpertChoice& choice, float ratio) {
  for (int t = 0; t < choice.tokens; ++t) {
    std::int32_t* experts = choice.expert + static_cast<std::ptrdiff_t>(t) * choice.per_token;
    const float* gates = choice.gate + static_cast<std::ptrdiff_t>(t) * choice.per_token;
    for (int j = 1; j < choice.per_token; ++j) {
      if (gates[j] < ratio * gates[0]) experts[j] = -1;
    }
  }
}

void ReferenceBackend::experts(const Quantised& x, const ExpertChoice& choice, const ExpertWeights& w,
                               MatrixView<float> y) {
  const std::size_t size = static_cast<std::size_t>(w.groups) * static_cast<std::size_t>(w.width);
  for (int t = 0; t < choice.tokens; ++t) {
    std::vector<float> z;  // [groups, width], empty until the first expert
    for (int j = 0; j < choice.per_token; ++j) {
      const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(t) * choice.per_token + j;
      const std::int32_t e = choice.expert[entry];
      if (e < 0) continue;
      const PackedExpert expert = PackedExpert::at(w.data[e].data(), w.width, w.ffn, w.groups);
      std::vector<float> part = expert_groups(code_row(x, t), *scale_row(x, t), expert, w.activation);
      for (float& value : part) value = choice.gate[entry] * value;
      if (z.empty()) {
        z = std::move(part);
      } else {
        for (std::size_t i = 0; i < size; ++i) z[i] = z[i] + part[i];
      }
    }
    if (z.empty()) z.assign(size, 0.0f);
    add_groups(z.data(), w.groups, w.width, y.row(t));
  }
}

}  // namespace grokd::kernels::reference

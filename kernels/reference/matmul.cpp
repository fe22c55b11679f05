// linear (section 4) and logits (section 5.9).

#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels::reference {

void multiply_group(const std::int16_t* codes, float code_scale, const PackedMatrix& w, int group, float* y) {
  const int length = w.in / w.groups;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(w.out));
  for (int k = 0; k < length; ++k) {
    const std::int8_t* weights = w.weights + static_cast<std::ptrdiff_t>(group * length + k) * w.out;
    for (int n = 0; n < w.out; ++n) sums[n] += static_cast<std::int32_t>(codes[k]) * weights[n];
  }
  const float* scales = w.scales + static_cast<std::ptrdiff_t>(group) * w.out;
  for (int n = 0; n < w.out; ++n) y[n] = static_cast<float>(sums[n]) * (code_scale * scales[n]);
}

void add_groups(const float* parts, int groups, int columns, float* y) {
  std::vector<float> values(static_cast<std::size_t>(groups));
  for (int n = 0; n < columns; ++n) {
    for (int g = 0; g < groups; ++g) values[g] = parts[static_cast<std::ptrdiff_t>(g) * columns + n];
    y[n] = tree(values);
  }
}

void multiply(const std::int16_t* codes, const float* code_scales, const PackedMatrix& w, float* y) {
  const int length = w.in / w.groups;
  std::vector<float> parts(static_cast<std::size_t>(w.groups) * static_cast<std::size_t>(w.out));
  for (int g = 0; g < w.groups; ++g) {
    multiply_group(codes + g * length, code_scales[g], w, g,
                   parts.data() + static_cast<std::ptrdiff_t>(g) * w.out);
  }
  add_groups(parts.data(), w.groups, w.out, y);
}

void ReferenceBackend::linear(const Quantised& x, const LinearWeights& w, MatrixView<float> y) {
  const PackedMatrix packed = PackedMatrix::at(w.data.data(), w.in, w.out, w.groups);
  for (int t = 0; t < x.rows; ++t) multiply(code_row(x, t), scale_row(x, t), packed, y.row(t));
}

void ReferenceBackend::logits(const Quantised& x, const HeadWeights& head, float multiplier, float cap,
                              MatrixView<float> logits) {
  const PackedHead packed = PackedHead::at(head.data.data(), head.vocab);
  for (int r = 0; r < x.rows; ++r) {
    const std::int16_t* codes = code_row(x, r);
    for (std::ptrdiff_t v = 0; v < head.vocab; ++v) {
      const std::int16_t* embedding = packed.codes + v * head.width;
      std::int64_t sum = 0;
      for (int d = 0; d < head.width; ++d) sum += static_cast<std::int32_t>(codes[d]) * embedding[d];
      const float y = static_cast<float>(sum) * (*scale_row(x, r) * packed.scales[v]);
      logits.row(r)[v] = soft_cap(y * multiplier, cap);
    }
  }
}

}  // namespace grokd::kernels::reference

// Embedding, RMSNorm, residual and the quantiser of rows (sections 3 and 5).

#include <vector>

#include "kernels/reference/layout.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels::reference {
namespace {

std::span<const float> row_of(MatrixView<const float> x, std::ptrdiff_t row) {
  return {x.row(row), static_cast<std::size_t>(x.cols)};
}

}  // namespace

void ReferenceBackend::embed(std::span<const TokenId> ids, MatrixView<const float> table, float multiplier,
                             MatrixView<float> h) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const float* from = table.row(ids[t]);
    float* to = h.row(static_cast<std::ptrdiff_t>(t));
    for (std::ptrdiff_t d = 0; d < table.cols; ++d) to[d] = from[d] * multiplier;
  }
}

void ReferenceBackend::norm_quantise(MatrixView<const float> h, std::span<const std::int32_t> rows,
                                     const float* gain, float eps, MatrixView<float> normed,
                                     const Quantised& out) {
  const std::ptrdiff_t count = rows.empty() ? h.rows : static_cast<std::ptrdiff_t>(rows.size());
  std::vector<float> norm(static_cast<std::size_t>(h.cols));
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::ptrdiff_t row = rows.empty() ? i : rows[static_cast<std::size_t>(i)];
    rms_norm(row_of(h, row), gain, eps, norm.data());
    if (normed.data != nullptr) std::copy(norm.begin(), norm.end(), normed.row(i));
    *scale_row(out, i) = quantise_row(norm, kActivationCode, code_row(out, i));
  }
}

void ReferenceBackend::residual_norm(MatrixView<const float> y, const float* gain, float eps,
                                     MatrixView<float> h) {
  std::vector<float> norm(static_cast<std::size_t>(y.cols));
  for (std::ptrdiff_t t = 0; t < y.rows; ++t) {
    const float* added = y.row(t);
    if (gain != nullptr) {
      rms_norm(row_of(y, t), gain, eps, norm.data());
      added = norm.data();
    }
    float* residual = h.row(t);
    for (std::ptrdiff_t d = 0; d < y.cols; ++d) residual[d] = residual[d] + added[d];
  }
}

void ReferenceBackend::residual_norm_quantise(MatrixView<const float> y, const float* post_gain,
                                              MatrixView<float> h, const float* next_gain, float eps,
                                              MatrixView<float> normed, const Quantised& out) {
  residual_norm(y, post_gain, eps, h);
  norm_quantise({h.data, y.rows, h.cols, h.stride}, {}, next_gain, eps, normed, out);
}

void ReferenceBackend::quantise(MatrixView<const float> x, const Quantised& out) {
  const std::ptrdiff_t length = x.cols / out.groups;
  for (std::ptrdiff_t t = 0; t < x.rows; ++t) {
    for (int g = 0; g < out.groups; ++g) {
      const std::span<const float> run(x.row(t) + g * length, static_cast<std::size_t>(length));
      scale_row(out, t)[g] = quantise_row(run, kActivationCode, code_row(out, t) + g * length);
    }
  }
}

}  // namespace grokd::kernels::reference

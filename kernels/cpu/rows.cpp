// Ops that treat each row by itself: embedding, norms, quantisers.

#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/op_scratch.h"

namespace grokd::kernels {

void CpuBackend::quantise_row(const float* x, const Quantised& out, int row) const {
  const CodeLayout layout{out.cols, out.groups};
  std::byte* codes = out.codes + static_cast<std::size_t>(row) * layout.row_bytes();
  float* scales = out.scales + std::ptrdiff_t{row} * out.groups;
  for (int g = 0; g < out.groups; ++g) {
    vector().quantise(x + std::ptrdiff_t{g} * layout.group_cols(), layout.group_cols(),
                      codes + static_cast<std::size_t>(g) * layout.group_bytes(), layout.plane(), scales + g);
  }
}

void CpuBackend::read_codes(const Quantised& x, std::int16_t* codes) {
  const CodeLayout layout{x.cols, x.groups};
  for (int row = 0; row < x.rows; ++row) {
    for (int g = 0; g < x.groups; ++g, codes += layout.group_cols()) {
      vector().read_codes(x.codes + static_cast<std::size_t>(row) * layout.row_bytes() +
                              static_cast<std::size_t>(g) * layout.group_bytes(),
                          layout.plane(), layout.group_cols(), codes);
    }
  }
}

void CpuBackend::embed(std::span<const TokenId> ids, MatrixView<const float> table, float multiplier,
                       MatrixView<float> h) {
  const auto width = static_cast<int>(h.cols);
  for_rows(static_cast<int>(ids.size()), width, [&](int t, int) {
    vector().scale(table.row(ids[static_cast<std::size_t>(t)]), multiplier, width, h.row(t));
  });
}

void CpuBackend::norm_quantise(MatrixView<const float> h, std::span<const std::int32_t> rows,
                               const float* gain, float eps, MatrixView<float> normed, const Quantised& out) {
  const auto width = static_cast<int>(h.cols);
  scratch_.reserve_own(bytes_of<RowScratch>(width));
  const int count = rows.empty() ? static_cast<int>(h.rows) : static_cast<int>(rows.size());
  for_rows(count, width, [&](int i, int thread) {
    Carver carver = scratch_.own(thread);
    float* y = normed.data ? normed.row(i) : RowScratch(carver, width).row;
    vector().norm(h.row(rows.empty() ? i : rows[static_cast<std::size_t>(i)]), gain, eps, width, y);
    quantise_row(y, out, i);
  });
}

void CpuBackend::residual_norm(MatrixView<const float> y, const float* gain, float eps, MatrixView<float> h) {
  const auto width = static_cast<int>(h.cols);
  for_rows(static_cast<int>(h.rows), width, [&](int t, int) {
    if (gain) {
      vector().add_norm(y.row(t), gain, eps, width, h.row(t));
    } else {
      vector().add(y.row(t), width, h.row(t));
    }
  });
}

void CpuBackend::residual_norm_quantise(MatrixView<const float> y, const float* post_gain,
                                        MatrixView<float> h, const float* next_gain, float eps,
                                        MatrixView<float> normed, const Quantised& out) {
  const auto width = static_cast<int>(h.cols);
  scratch_.reserve_own(bytes_of<RowScratch>(width));
  for_rows(static_cast<int>(h.rows), 2 * width, [&](int t, int thread) {
    Carver carver = scratch_.own(thread);
    if (post_gain) {
      vector().add_norm(y.row(t), post_gain, eps, width, h.row(t));
    } else {
      vector().add(y.row(t), width, h.row(t));
    }
    float* next = normed.data ? normed.row(t) : RowScratch(carver, width).row;
    vector().norm(h.row(t), next_gain, eps, width, next);
    quantise_row(next, out, t);
  });
}

void CpuBackend::quantise(MatrixView<const float> x, const Quantised& out) {
  for_rows(static_cast<int>(x.rows), static_cast<int>(x.cols),
           [&](int t, int) { quantise_row(x.row(t), out, t); });
}

}  // namespace grokd::kernels

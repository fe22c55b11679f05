#include "kernels/pack_float.h"

#include <vector>

#include "kernels/reference/primitives.h"

namespace grokd::kernels {

void pack_float_matrix(MatrixView<const float> w, int groups, MatrixView<std::int8_t> codes,
                       MatrixView<float> scales) {
  constexpr int kLargestCode = 127;
  const std::ptrdiff_t length = w.rows / groups;
  std::vector<float> column(static_cast<std::size_t>(length));
  std::vector<std::int16_t> wide(column.size());
  for (std::ptrdiff_t g = 0; g < groups; ++g) {
    for (std::ptrdiff_t n = 0; n < w.cols; ++n) {
      for (std::ptrdiff_t k = 0; k < length; ++k) column[k] = w.row(g * length + k)[n];
      scales.row(g)[n] = reference::quantise_row(column, kLargestCode, wide.data());
      for (std::ptrdiff_t k = 0; k < length; ++k)
        codes.row(g * length + k)[n] = static_cast<std::int8_t>(wide[k]);
    }
  }
}

}  // namespace grokd::kernels

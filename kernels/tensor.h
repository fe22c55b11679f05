#pragma once
// Plain views of arrays. Nobody owns anything here.

#include <cstddef>
#include <cstdint>

namespace grokd::kernels {

using TokenId = std::int32_t;

/// A row-major [rows, cols] view; `stride` counts elements between the starts of two rows.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::ptrdiff_t rows = 0;
  std::ptrdiff_t cols = 0;
  std::ptrdiff_t stride = 0;

  MatrixView() = default;
  MatrixView(T* d, std::ptrdiff_t r, std::ptrdiff_t c) : data(d), rows(r), cols(c), stride(c) {}
  MatrixView(T* d, std::ptrdiff_t r, std::ptrdiff_t c, std::ptrdiff_t s)
      : data(d), rows(r), cols(c), stride(s) {}
  T* row(std::ptrdiff_t r) const { return data + r * stride; }
  operator MatrixView<const T>() const { return {data, rows, cols, stride}; }
};

}  // namespace grokd::kernels

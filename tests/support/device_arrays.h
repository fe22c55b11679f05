#pragma once
// Host vectors in and out of a backend's memory, and comparison of bits.

#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace grokd::test {

/// A [rows, cols] array in the memory of a backend; made from host values or zero.
template <class T>
class DeviceMatrix {
 public:
  DeviceMatrix(kernels::Backend& backend, int rows, int cols)
      : backend_(backend), rows_(rows), cols_(cols), buffer_(backend.allocate(bytes())) {}
  DeviceMatrix(kernels::Backend& backend, const std::vector<T>& values, int rows, int cols)
      : DeviceMatrix(backend, rows, cols) {
    backend.upload(buffer_.data(), values.data(), bytes());
  }

  kernels::MatrixView<T> view() const { return {buffer_.as<T>(), rows_, cols_}; }
  T* data() const { return buffer_.as<T>(); }
  std::vector<T> read() const {
    std::vector<T> values(static_cast<std::size_t>(rows_) * cols_);
    backend_.download(values.data(), buffer_.data(), bytes());
    return values;
  }

 private:
  std::size_t bytes() const { return sizeof(T) * static_cast<std::size_t>(rows_) * cols_; }

  kernels::Backend& backend_;
  int rows_, cols_;
  kernels::Buffer buffer_;
};

/// Codes and scales of quantised rows, on the host.
struct HostCodes {
  std::vector<std::int16_t> codes;
  std::vector<float> scales;
};

inline HostCodes read_quantised(kernels::Backend& backend, const kernels::Quantised& x) {
  HostCodes host;
  host.codes.resize(static_cast<std::size_t>(x.rows) * x.cols);
  host.scales.resize(static_cast<std::size_t>(x.rows) * x.groups);
  backend.read_codes(x, host.codes.data());
  backend.download(host.scales.data(), x.scales, host.scales.size() * sizeof(float));
  return host;
}

/// Equal under the contract: the bits of a NaN and the sign of a zero do not count.
inline bool same_number(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b;
}

template <class T>
bool same_number(T a, T b) {
  return a == b;
}

/// Empty if all are equal, else where and how the first difference shows.
template <class T>
std::string first_difference(const std::vector<T>& actual, const std::vector<T>& expected) {
  std::ostringstream text;
  text.precision(17);
  if (actual.size() != expected.size()) {
    text << actual.size() << " values instead of " << expected.size();
    return text.str();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (same_number(actual[i], expected[i])) continue;
    text << "[" << i << "] is " << +actual[i] << ", expected " << +expected[i];
    return text.str();
  }
  return {};
}

}  // namespace grokd::test

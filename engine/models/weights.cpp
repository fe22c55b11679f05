#include "engine/models/weights.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace grokd {

using kernels::LinearSource;
using kernels::MatrixView;

namespace {

template <class Raw>
Raw load_raw(const std::byte* data, std::size_t i) {
  Raw raw;
  std::memcpy(&raw, data + i * sizeof(Raw), sizeof(Raw));
  return raw;
}

float from_f16(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1f;
  const std::uint32_t fraction = h & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t high = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | (high << 23) | (fraction << 13));
}

}  // namespace

void widen(DType type, const std::byte* data, std::span<float> values) {
  const std::size_t n = values.size();
  switch (type) {
    case DType::f32:
      std::memcpy(values.data(), data, n * sizeof(float));
      break;
    case DType::bf16:
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = std::bit_cast<float>(std::uint32_t{load_raw<std::uint16_t>(data, i)} << 16);
      }
      break;
    case DType::f16:
      for (std::size_t i = 0; i < n; ++i) values[i] = from_f16(load_raw<std::uint16_t>(data, i));
      break;
    case DType::i8:
      for (std::size_t i = 0; i < n; ++i) values[i] = load_raw<std::int8_t>(data, i);
      break;
    case DType::q8_0:
      for (std::size_t i = 0; i < n; i += 32) {
        const std::byte* block = data + run_bytes(type, i);
        const float scale = from_f16(load_raw<std::uint16_t>(block, 0));
        for (std::size_t j = 0; j < 32; ++j) values[i + j] = load_raw<std::int8_t>(block + 2, j) * scale;
      }
      break;
  }
}

std::vector<float> widen(const TensorView& tensor) {
  std::vector<float> values(tensor.count());
  widen(tensor.dtype, tensor.data, values);
  return values;
}

kernels::Buffer upload_floats(kernels::Backend& backend, const TensorView& tensor) {
  const std::size_t n = tensor.count();
  kernels::Buffer buffer = backend.allocate(n * sizeof(float));
  if (tensor.dtype == DType::f32) {
    backend.upload(buffer.data(), tensor.data, tensor.bytes());
  } else {
    const std::vector<float> values = widen(tensor);
    backend.upload(buffer.data(), values.data(), n * sizeof(float));
  }
  return buffer;
}

QuantisedTensor::QuantisedTensor(const CheckpointTensor& tensor)
    : weight_(reinterpret_cast<const std::int8_t*>(tensor.weight.data)), scales_(widen(tensor.scales)) {
  const auto& shape = tensor.weight.shape;
  const auto& scale_shape = tensor.scales.shape;
  if (shape.size() == 3) experts_ = static_cast<int>(shape[0]);
  in_ = static_cast<int>(shape[shape.size() - 2]);
  out_ = static_cast<int>(shape.back());
  scale_rows_ = static_cast<int>(scale_shape[scale_shape.size() - 2]);
}

LinearSource QuantisedTensor::whole(int expert) const {
  const auto matrix = static_cast<std::ptrdiff_t>(expert) * in_ * out_;
  const auto scale = static_cast<std::ptrdiff_t>(expert) * scale_rows_ * out_;
  return {MatrixView<const std::int8_t>(weight_ + matrix, in_, out_),
          MatrixView<const float>(scales_.data() + scale, scale_rows_, out_)};
}

LinearSource QuantisedTensor::columns(Shard shard, int expert) const {
  LinearSource s = whole(expert);
  const int width = out_ / shard.ranks;
  s.weight.data += static_cast<std::ptrdiff_t>(shard.rank) * width;
  s.scales.data += static_cast<std::ptrdiff_t>(shard.rank) * width;
  s.weight.cols = s.scales.cols = width;
  return s;
}

LinearSource QuantisedTensor::rows(Shard shard, int expert) const {
  LinearSource s = whole(expert);
  const int height = in_ / shard.ranks;
  s.weight.data = s.weight.row(static_cast<std::ptrdiff_t>(shard.rank) * height);
  s.weight.rows = height;
  if (scale_rows_ >= shard.ranks) {
    s.scales.rows = scale_rows_ / shard.ranks;
    s.scales.data = s.scales.row(shard.rank * s.scales.rows);
  } else {  // one scale row serves several ranks
    s.scales.data = s.scales.row(shard.rank * scale_rows_ / shard.ranks);
    s.scales.rows = 1;
  }
  return s;
}

void run_parallel(std::span<const std::function<void()>> tasks, int threads) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < tasks.size();) {
      try {
        tasks[i]();
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        next = tasks.size();
      }
    }
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  others.clear();
  if (first) std::rethrow_exception(first);
}

}  // namespace grokd

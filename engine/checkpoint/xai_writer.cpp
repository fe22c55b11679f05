#include "engine/checkpoint/xai_writer.h"

#include <cstring>
#include <stdexcept>

namespace grokd {
namespace {

constexpr std::string_view kNone = "N", kFalse = "\x89", kTrue = "\x88", kMark = "(", kReduce = "R",
                           kBuild = "b";
// ml_dtypes' flags: needs the Python API to get and set items.
constexpr std::uint32_t kBfloat16Flags = 112;

/// numpy.dtype(code, False, True) with its state (3, order, None, None, None, size, alignment, flags).
void write_dtype(PickleWriter& out, DType type) {
  out.global("numpy", "dtype");
  const bool bf16 = type == DType::bf16;
  if (bf16) {
    out.global("ml_dtypes", "bfloat16");
  } else {
    out.text(type == DType::f32 ? "f4" : "i1");
  }
  out.constant(kFalse);
  out.constant(kTrue);
  out.tuple(3);
  out.op(kReduce);
  out.memoize();
  out.op(kMark);
  out.integer(3);
  out.text(type == DType::i8 ? "|" : "<");
  for (int i = 0; i < 3; ++i) out.constant(kNone);
  for (int i = 0; i < 2; ++i) bf16 ? out.integer(2) : out.minus_one();
  out.integer(bf16 ? kBfloat16Flags : 0);
  out.tuple(8);
  out.op(kBuild);
}

void write_shape(PickleWriter& out, const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > 3)
    throw std::logic_error("arrays are written with one to three dimensions");
  for (const std::int64_t dim : shape) out.integer(static_cast<std::uint32_t>(dim));
  out.tuple(shape.size());
}

/// numpy's _reconstruct(ndarray, (0,), b"b") with its state (1, shape, dtype, False, bytes).
void write_array(PickleWriter& out, const ArraySource& array) {
  out.begin_value();
  out.global("numpy.core.multiarray", "_reconstruct");
  out.global("numpy", "ndarray");
  out.integer(0);
  out.tuple(1);
  out.short_bytes("b");
  out.tuple(3);
  out.op(kReduce);
  out.memoize();
  out.op(kMark);
  out.integer(1);
  write_shape(out, array.shape);
  out.begin_value();
  write_dtype(out, array.dtype);
  out.constant(kFalse);
  out.bytes(array_bytes(array), array.fill);
  out.tuple(5);
  out.op(kBuild);
}

void write_quantized(PickleWriter& out, const ArraySource& weight, const ArraySource& scales) {
  out.global("__main__", "QuantizedWeight8bit");
  out.constant(")");
  out.op("\x81");
  out.memoize();
  out.constant("}");
  out.memoize();
  out.op(kMark);
  out.text("weight");
  write_array(out, weight);
  out.text("scales");
  write_array(out, scales);
  out.op("u");
  out.op(kBuild);
}

}  // namespace

std::uint64_t array_bytes(const ArraySource& array) {
  std::uint64_t bytes = dtype_bytes(array.dtype);
  for (const std::int64_t dim : array.shape) bytes *= static_cast<std::uint64_t>(dim);
  return bytes;
}

ArraySource array_source(const TensorView& view) {
  const std::byte* data = view.data;
  return {view.dtype, view.shape, [data](std::uint64_t offset, std::span<std::byte> out) {
            std::memcpy(out.data(), data + offset, out.size());
          }};
}

std::uint64_t write_xai_tensor(const std::string& path, const ArraySource& weight,
                               const std::optional<ArraySource>& scales) {
  PickleWriter out(path);
  if (scales) {
    write_quantized(out, weight, *scales);
  } else {
    write_array(out, weight);
  }
  return out.finish();
}

}  // namespace grokd

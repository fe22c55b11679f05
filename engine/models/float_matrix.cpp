#include "engine/models/float_matrix.h"

#include <algorithm>

#include "engine/models/weights.h"
#include "kernels/pack_float.h"

namespace grokd {
namespace {

/// Where a head's output i stands when its RoPE pairs (i, i + d/2) stand together.
std::int64_t paired_row(std::int64_t row, std::int64_t head) {
  const std::int64_t i = row % head, half = head / 2;
  return row - i + 2 * (i % half) + i / half;
}

/// Rows of a matrix as f32.
class RowReader {
 public:
  explicit RowReader(const FloatMatrix& matrix) : matrix_(matrix) {}

  void read(std::int64_t row, std::vector<float>& values) const {
    if (matrix_.paired_head > 0) row = paired_row(row, matrix_.paired_head);
    std::size_t at = 0;
    for (const TensorView& piece : matrix_.pieces) {
      if (!matrix_.along_inputs && row >= piece.shape[0]) {
        row -= piece.shape[0];
        continue;
      }
      const auto count = static_cast<std::size_t>(piece.shape[1]);
      widen(piece.dtype, piece.data + run_bytes(piece.dtype, static_cast<std::size_t>(row) * count),
            std::span(values).subspan(at, count));
      at += count;
      if (!matrix_.along_inputs) return;
    }
  }

 private:
  const FloatMatrix& matrix_;
};

/// The outputs [first_out, ...) and inputs [first_in, ...) that `packed` has room for. Rows are packed
/// several at a time, so that the codes can be written in runs.
void pack(const FloatMatrix& matrix, std::int64_t first_out, std::int64_t first_in, PackedFloats& packed) {
  constexpr std::ptrdiff_t kRows = 64;
  const auto codes = packed.codes();
  const auto scales = packed.scales();
  const auto length = static_cast<std::size_t>(codes.rows / scales.rows);
  const RowReader reader(matrix);
  std::vector<float> row(static_cast<std::size_t>(matrix.in()));
  std::vector<std::int8_t> tile(static_cast<std::size_t>(kRows * codes.rows));
  for (std::ptrdiff_t n = 0; n < codes.cols; n += kRows) {
    const std::ptrdiff_t rows = std::min(kRows, codes.cols - n);
    for (std::ptrdiff_t i = 0; i < rows; ++i) {
      reader.read(first_out + n + i, row);
      for (std::ptrdiff_t g = 0; g < scales.rows; ++g) {
        const std::size_t at = static_cast<std::size_t>(g) * length;
        scales.row(g)[n + i] =
            kernels::pack_float_run(std::span(row).subspan(static_cast<std::size_t>(first_in) + at, length),
                                    tile.data() + i * codes.rows + at);
      }
    }
    for (std::ptrdiff_t k = 0; k < codes.rows; ++k) {
      for (std::ptrdiff_t i = 0; i < rows; ++i) codes.row(k)[n + i] = tile[i * codes.rows + k];
    }
  }
}

}  // namespace

PackedFloats::PackedFloats(int in, int out, int groups)
    : in_(in),
      out_(out),
      groups_(groups),
      codes_(static_cast<std::size_t>(in) * static_cast<std::size_t>(out)),
      scales_(static_cast<std::size_t>(groups) * static_cast<std::size_t>(out)) {}

kernels::LinearSource PackedFloats::source() const {
  return {{codes_.data(), in_, out_}, {scales_.data(), groups_, out_}};
}

PackedFloats pack_outputs(const FloatMatrix& matrix, Shard shard) {
  const auto out = static_cast<int>(matrix.out() / shard.ranks);
  PackedFloats packed(static_cast<int>(matrix.in()), out, 1);
  pack(matrix, std::int64_t{shard.rank} * out, 0, packed);
  return packed;
}

PackedFloats pack_inputs(const FloatMatrix& matrix, Shard shard, int groups) {
  const auto in = static_cast<int>(matrix.in() / shard.ranks);
  PackedFloats packed(in, static_cast<int>(matrix.out()), groups);
  pack(matrix, 0, std::int64_t{shard.rank} * in, packed);
  return packed;
}

kernels::Buffer upload_transposed(kernels::Backend& backend, const FloatMatrix& matrix) {
  const auto in = static_cast<std::size_t>(matrix.in()), out = static_cast<std::size_t>(matrix.out());
  const RowReader reader(matrix);
  std::vector<float> row(in), values(in * out);
  for (std::size_t n = 0; n < out; ++n) {
    reader.read(static_cast<std::int64_t>(n), row);
    for (std::size_t k = 0; k < in; ++k) values[k * out + n] = row[k];
  }
  kernels::Buffer buffer = backend.allocate(values.size() * sizeof(float));
  backend.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

}  // namespace grokd

// Weights into tiles, on the host; then they go to the device as one block.

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/pack.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/primitives.h"

namespace grokd::kernels::cuda {
namespace {

using Bytes = std::vector<unsigned char>;

/// Writes weights and scales of a matrix that lies at `data`.
class TileWriter {
 public:
  TileWriter(const MatrixLayout& layout, unsigned char* data)
      : layout_(layout), data_(data), scales_(reinterpret_cast<float*>(data + layout.scale_offset())) {}

  /// Column n of the source becomes output output_of(n). Rows are read in bands of one tile, so that both the
  /// source and the tiles are walked in runs.
  template <class OutputOf>
  void put(const LinearSource& source, const OutputOf& output_of) {
    for (int g = 0; g < layout_.groups; ++g) {
      for (int k = 0; k < layout_.group_inputs(); k += kTileInputs) put_band(source, output_of, g, k);
      const std::ptrdiff_t repeats = layout_.groups / source.scales.rows;
      float* scales = scales_ + static_cast<std::ptrdiff_t>(g) * layout_.padded_out();
      for (int n = 0; n < source.scales.cols; ++n) scales[output_of(n)] = source.scales.row(g / repeats)[n];
    }
  }

 private:
  template <class OutputOf>
  void put_band(const LinearSource& source, const OutputOf& output_of, int group, int first) {
    const int end = std::min(first + kTileInputs, layout_.group_inputs());
    const int columns = static_cast<int>(source.weight.cols);
    for (int n = 0; n < columns; n += kPairOutputs) {
      for (int k = first; k < end; ++k) {
        const std::int8_t* row = source.weight.row(group * layout_.group_inputs() + k);
        for (int m = n; m < n + kPairOutputs && m < columns; ++m) *at(output_of(m), group, k) = row[m];
      }
    }
  }

  std::int8_t* at(int output, int group, int k) const {
    const std::ptrdiff_t tile = static_cast<std::ptrdiff_t>(output / kTileOutputs) * layout_.input_tiles() +
                                group * layout_.group_tiles() + k / kTileInputs;
    return reinterpret_cast<std::int8_t*>(data_) + tile * kTileBytes +
           weight_byte(output % kTileOutputs, k % kTileInputs);
  }

  MatrixLayout layout_;
  unsigned char* data_;
  float* scales_;
};

}  // namespace

LinearWeights CudaBackend::pack_linear(std::span<const LinearSource> columns, int groups) {
  LinearWeights w;
  w.in = static_cast<int>(columns.front().weight.rows);
  w.groups = groups;
  for (const LinearSource& source : columns) {
    if (source.weight.rows != w.in)
      throw std::invalid_argument("matrices side by side differ in their inputs");
    check_source(source, groups);
    w.out += static_cast<int>(source.weight.cols);
  }
  const MatrixLayout layout{w.in, w.out, groups};
  Bytes bytes(layout.bytes());
  TileWriter writer(layout, bytes.data());
  int first = 0;
  for (const LinearSource& source : columns) {
    writer.put(source, [first](int n) { return first + n; });
    first += static_cast<int>(source.weight.cols);
  }
  w.data = allocate(bytes.size());
  upload(w.data.data(), bytes.data(), bytes.size());
  return w;
}

ExpertWeights CudaBackend::pack_experts(std::span<const ExpertSource> experts, int groups) {
  ExpertWeights w;
  w.experts = static_cast<int>(experts.size());
  w.width = static_cast<int>(experts.front().gate.weight.rows);
  w.ffn = static_cast<int>(experts.front().gate.weight.cols);
  w.groups = groups;
  const ExpertLayout layout{w.width, w.ffn, groups};
  for (const ExpertSource& source : experts) {
    check_source(source.gate, 1);
    check_source(source.up, 1);
    check_source(source.down, groups);
    Bytes bytes(layout.bytes());
    TileWriter pair(layout.gate_up(), bytes.data());
    const auto gate_output = [](int n) { return n / kPairOutputs * kTileOutputs + n % kPairOutputs; };
    pair.put(source.gate, gate_output);
    pair.put(source.up, [&](int n) { return gate_output(n) + kPairOutputs; });
    TileWriter down(layout.down(), bytes.data() + layout.gate_up().bytes());
    down.put(source.down, [](int n) { return n; });
    Buffer data = allocate(bytes.size());
    upload(data.data(), bytes.data(), bytes.size());
    w.data.push_back(std::move(data));
  }
  return w;
}

HeadWeights CudaBackend::pack_head(MatrixView<const float> embeddings) {
  HeadWeights head;
  head.vocab = static_cast<int>(embeddings.rows);
  head.width = static_cast<int>(embeddings.cols);
  const HeadLayout layout{head.vocab, head.width};
  const MatrixLayout matrix = layout.matrix();
  Bytes bytes(layout.bytes());
  auto* scales = reinterpret_cast<float*>(bytes.data() + layout.scale_offset());
  std::vector<std::int16_t> codes(static_cast<std::size_t>(head.width));
  for (int v = 0; v < head.vocab; ++v) {
    const std::span<const float> row(embeddings.row(v), codes.size());
    scales[v] = reference::quantise_row(row, reference::kHeadCode, codes.data());
    for (int k = 0; k < head.width; ++k) {
      const std::ptrdiff_t tile =
          static_cast<std::ptrdiff_t>(v / kTileOutputs) * matrix.input_tiles() + k / kTileInputs;
      unsigned char* high =
          bytes.data() + 2 * tile * kTileBytes + weight_byte(v % kTileOutputs, k % kTileInputs);
      const int code = codes[static_cast<std::size_t>(k)];
      const auto low = static_cast<std::int8_t>(code & 0xff);
      high[0] = static_cast<unsigned char>((code - low) >> 8);
      high[kTileBytes] = static_cast<unsigned char>(low);
    }
  }
  head.data = allocate(bytes.size());
  upload(head.data.data(), bytes.data(), bytes.size());
  return head;
}

}  // namespace grokd::kernels::cuda

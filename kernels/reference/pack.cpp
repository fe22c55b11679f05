// Weights into the reference layout.

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernels/reference/layout.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels::reference {
namespace {

constexpr int kLongestGroup = 65793;  // 255 * 128 * 65793 < 2^31: section 4

void check_groups(const LinearSource& source, int groups) {
  const std::ptrdiff_t in = source.weight.rows;
  const bool usable = groups > 0 && std::has_single_bit(static_cast<unsigned>(groups)) && in % groups == 0 &&
                      in / groups <= kLongestGroup;
  if (!usable) {
    throw std::invalid_argument("a matrix with " + std::to_string(in) + " inputs cannot have " +
                                std::to_string(groups) + " scale groups");
  }
  const std::ptrdiff_t rows = source.scales.rows;
  if (rows < 1 || groups % rows != 0 || source.scales.cols != source.weight.cols) {
    throw std::invalid_argument("a matrix with " + std::to_string(source.weight.cols) + " outputs and " +
                                std::to_string(groups) + " scale groups cannot use scales [" +
                                std::to_string(rows) + ", " + std::to_string(source.scales.cols) + "]");
  }
}

/// Copies one source into the columns from `first_column` on; coarse scales are repeated.
void pack_columns(const LinearSource& source, const PackedMatrix& packed, int first_column) {
  check_groups(source, packed.groups);
  for (int k = 0; k < packed.in; ++k) {
    std::copy_n(source.weight.row(k), source.weight.cols,
                packed.weights + static_cast<std::ptrdiff_t>(k) * packed.out + first_column);
  }
  const std::ptrdiff_t repeats = packed.groups / source.scales.rows;
  for (int g = 0; g < packed.groups; ++g) {
    std::copy_n(source.scales.row(g / repeats), source.scales.cols,
                packed.scales + static_cast<std::ptrdiff_t>(g) * packed.out + first_column);
  }
}

}  // namespace

LinearWeights ReferenceBackend::pack_linear(std::span<const LinearSource> columns, int groups) {
  LinearWeights w;
  w.in = static_cast<int>(columns.front().weight.rows);
  w.groups = groups;
  for (const LinearSource& source : columns) {
    if (source.weight.rows != w.in)
      throw std::invalid_argument("matrices side by side differ in their inputs");
    check_groups(source, groups);
    w.out += static_cast<int>(source.weight.cols);
  }
  w.data = allocate(PackedMatrix::bytes(w.in, w.out, groups));
  const PackedMatrix packed = PackedMatrix::at(w.data.data(), w.in, w.out, groups);
  int first_column = 0;
  for (const LinearSource& source : columns) {
    pack_columns(source, packed, first_column);
    first_column += static_cast<int>(source.weight.cols);
  }
  return w;
}

ExpertWeights ReferenceBackend::pack_experts(std::span<const ExpertSource> experts, int groups) {
  ExpertWeights w;
  w.experts = static_cast<int>(experts.size());
  w.width = static_cast<int>(experts.front().gate.weight.rows);
  w.ffn = static_cast<int>(experts.front().gate.weight.cols);
  w.groups = groups;
  for (const ExpertSource& source : experts) {
    Buffer data = allocate(PackedExpert::bytes(w.width, w.ffn, groups));
    const PackedExpert packed = PackedExpert::at(data.data(), w.width, w.ffn, groups);
    pack_columns(source.gate, packed.gate, 0);
    pack_columns(source.up, packed.up, 0);
    pack_columns(source.down, packed.down, 0);
    w.data.push_back(std::move(data));
  }
  return w;
}

HeadWeights ReferenceBackend::pack_head(MatrixView<const float> embeddings) {
  HeadWeights head;
  head.vocab = static_cast<int>(embeddings.rows);
  head.width = static_cast<int>(embeddings.cols);
  head.data = allocate(PackedHead::bytes(head.vocab, head.width));
  const PackedHead packed = PackedHead::at(head.data.data(), head.vocab);
  for (std::ptrdiff_t v = 0; v < head.vocab; ++v) {
    const std::span<const float> row(embeddings.row(v), static_cast<std::size_t>(head.width));
    packed.scales[v] = quantise_row(row, kHeadCode, packed.codes + v * head.width);
  }
  return head;
}

}  // namespace grokd::kernels::reference

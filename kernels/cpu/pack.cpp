#include "kernels/cpu/pack.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace grokd::kernels {
namespace {

constexpr int kLongestGroup = 65793;  // 255 * 128 * 65793 < 2^31: docs/numerics.md, section 4
constexpr int kHeadCode = 32639;
constexpr int kSumFactor = 128;

// Rows are read in bands of this many panels, so that both the source and the panels are walked in long runs.
constexpr int kBand = 16;

using Bytes16 = std::int8_t[kTileColumns];

/// A tile: 4 rows of 16 bytes -> 16 columns of 4 bytes.
void store_tile(const Bytes16 rows[kStepInputs], std::byte* out) {
  const auto row = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i])); };
  const __m128i low01 = _mm_unpacklo_epi8(row(0), row(1)), high01 = _mm_unpackhi_epi8(row(0), row(1));
  const __m128i low23 = _mm_unpacklo_epi8(row(2), row(3)), high23 = _mm_unpackhi_epi8(row(2), row(3));
  auto* tile = reinterpret_cast<__m128i*>(out);
  _mm_store_si128(tile, _mm_unpacklo_epi16(low01, low23));
  _mm_store_si128(tile + 1, _mm_unpackhi_epi16(low01, low23));
  _mm_store_si128(tile + 2, _mm_unpacklo_epi16(high01, high23));
  _mm_store_si128(tile + 3, _mm_unpackhi_epi16(high01, high23));
}

/// The 16 columns of a tile, each with the matrix it comes from.
struct TileColumns {
  const LinearSource* source[kTileColumns] = {};
  int column[kTileColumns] = {};
  bool one_run = true;  // neighbours in one matrix

  void read_row(int k, Bytes16& out) const {
    if (one_run) {
      std::memcpy(out, source[0]->weight.row(k) + column[0], kTileColumns);
      return;
    }
    for (int c = 0; c < kTileColumns; ++c)
      out[c] = source[c] ? source[c]->weight.row(k)[column[c]] : std::int8_t{0};
  }

  float scale(int c, int group, int groups) const {
    if (!source[c]) return 0;
    const std::ptrdiff_t repeats = groups / source[c]->scales.rows;
    return source[c]->scales.row(group / repeats)[column[c]];
  }
};

std::vector<TileColumns> tile_columns(std::span<const PanelColumns> columns, int tiles) {
  std::vector<TileColumns> result(static_cast<std::size_t>(tiles));
  int at = 0;
  for (const PanelColumns& run : columns) {
    for (int i = 0; i < run.count; ++i, ++at) {
      TileColumns& tile = result[static_cast<std::size_t>(at / kTileColumns)];
      tile.source[at % kTileColumns] = run.source;
      tile.column[at % kTileColumns] = run.first + i;
    }
  }
  for (TileColumns& tile : result) {
    for (int c = 0; c < kTileColumns; ++c) {
      tile.one_run &=
          tile.source[c] && tile.source[c] == tile.source[0] && tile.column[c] == tile.column[0] + c;
    }
  }
  return result;
}

/// One group of one tile column of a panel: steps, then the column sums.
struct TileWriter {
  const TileColumns& columns;
  std::byte* tile;  // first step
  std::int32_t sums[kTileColumns] = {};

  void write_step(int first_row, int end_row, int step) {
    Bytes16 rows[kStepInputs] = {};
    for (int j = 0; j < kStepInputs && first_row + j < end_row; ++j) {
      columns.read_row(first_row + j, rows[j]);
      for (int c = 0; c < kTileColumns; ++c) sums[c] += rows[j][c];
    }
    store_tile(rows, tile + static_cast<std::ptrdiff_t>(step) * kStepBytes);
  }
};

constexpr int kTilesAPanel = kPanelColumns / kTileColumns;

/// Sums and scales behind the steps of a group.
void write_tail(const TileWriter& writer, const PanelLayout& layout, int group, std::byte* tail, int tile) {
  auto* sums = reinterpret_cast<std::int32_t*>(tail) + tile * kTileColumns;
  auto* scales = reinterpret_cast<float*>(tail + kSumBytes) + tile * kTileColumns;
  for (int c = 0; c < kTileColumns; ++c) {
    sums[c] = kSumFactor * writer.sums[c];
    scales[c] = writer.columns.scale(c, group, layout.groups);
  }
}

/// One group of the panels of a band.
void pack_band(std::span<const TileColumns> tiles, const PanelLayout& layout, int group, std::byte* out) {
  std::vector<TileWriter> writers;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    std::byte* panel = out + static_cast<std::ptrdiff_t>(t / kTilesAPanel * layout.panel_bytes());
    writers.push_back({tiles[t], panel + t % kTilesAPanel * 64});
  }
  const int first_row = group * layout.group_inputs(), end_row = first_row + layout.group_inputs();
  for (int step = 0; step < layout.steps(); ++step) {
    for (TileWriter& writer : writers) writer.write_step(first_row + step * kStepInputs, end_row, step);
  }
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    std::byte* panel = out + static_cast<std::ptrdiff_t>(t / kTilesAPanel * layout.panel_bytes());
    write_tail(writers[t], layout, group, panel + static_cast<std::ptrdiff_t>(layout.steps()) * kStepBytes,
               static_cast<int>(t) % kTilesAPanel);
  }
}

/// Codes of one embedding row, M = 32639, in plain arithmetic: at load time only.
float quantise_embedding(const float* row, int width, std::int16_t* codes) {
  std::uint32_t bits = 0;
  for (int i = 0; i < width; ++i) bits = std::max(bits, std::bit_cast<std::uint32_t>(row[i]) & 0x7fffffffu);
  std::fill_n(codes, width, std::int16_t{0});
  if (bits >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  if (bits < 0x0da24260u) return 0;
  const float largest = std::bit_cast<float>(bits), inverse = static_cast<float>(kHeadCode) / largest;
  for (int i = 0; i < width; ++i) codes[i] = static_cast<std::int16_t>(std::rint(row[i] * inverse));
  return largest / static_cast<float>(kHeadCode);
}

}  // namespace

void check_source(const LinearSource& source, int groups) {
  const std::ptrdiff_t in = source.weight.rows;
  if (groups < 1 || !std::has_single_bit(static_cast<unsigned>(groups)) || in % groups != 0 ||
      in / groups > kLongestGroup) {
    throw std::invalid_argument("a matrix with " + std::to_string(in) + " inputs cannot have " +
                                std::to_string(groups) + " scale groups");
  }
  const std::ptrdiff_t rows = source.scales.rows;
  if (rows < 1 || groups % rows != 0 || source.scales.cols != source.weight.cols) {
    throw std::invalid_argument("scales [" + std::to_string(rows) + ", " +
                                std::to_string(source.scales.cols) + "] do not fit a matrix with " +
                                std::to_string(source.weight.cols) + " outputs and " +
                                std::to_string(groups) + " scale groups");
  }
}

void pack_panels(std::span<const PanelColumns> columns, const PanelLayout& layout, std::byte* out) {
  const std::vector<TileColumns> tiles = tile_columns(columns, layout.panels() * kTilesAPanel);
  for (int panel = 0; panel < layout.panels(); panel += kBand) {
    const int panels = std::min(kBand, layout.panels() - panel);
    const auto band = std::span(tiles).subspan(static_cast<std::size_t>(panel) * kTilesAPanel,
                                               static_cast<std::size_t>(panels) * kTilesAPanel);
    std::byte* first =
        out + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(panel) * layout.panel_bytes());
    for (int group = 0; group < layout.groups; ++group) {
      pack_band(band, layout, group,
                first + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(group) * layout.group_bytes()));
    }
  }
}

void pack_head_panel(MatrixView<const float> embeddings, const HeadLayout& layout, int panel,
                     std::byte* out) {
  std::vector<std::int16_t> codes(static_cast<std::size_t>(layout.width));
  std::byte* tail = out + static_cast<std::ptrdiff_t>(layout.steps()) * 2 * kStepBytes;
  for (int c = 0; c < kPanelColumns && panel * kPanelColumns + c < layout.vocab; ++c) {
    const float scale =
        quantise_embedding(embeddings.row(panel * kPanelColumns + c), layout.width, codes.data());
    std::int32_t high_sum = 0, low_sum = 0;
    for (int k = 0; k < layout.width; ++k) {
      const auto low = static_cast<std::int8_t>(codes[static_cast<std::size_t>(k)] & 0xff);
      const auto high = static_cast<std::int8_t>((codes[static_cast<std::size_t>(k)] - low) / 256);
      std::byte* at =
          out + std::ptrdiff_t{k / kStepInputs} * 2 * kStepBytes + c * kStepInputs + k % kStepInputs;
      at[0] = static_cast<std::byte>(high);
      at[kStepBytes] = static_cast<std::byte>(low);
      high_sum += high, low_sum += low;
    }
    reinterpret_cast<std::int32_t*>(tail)[c] = kSumFactor * high_sum;
    reinterpret_cast<std::int32_t*>(tail + kSumBytes)[c] = kSumFactor * low_sum;
    reinterpret_cast<float*>(tail + 2 * kSumBytes)[c] = scale;
  }
}

}  // namespace grokd::kernels

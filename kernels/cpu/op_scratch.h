#pragma once
// The pieces of working memory that each op cuts from Scratch, and so their sizes.

#include <atomic>
#include <cstdint>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/scratch.h"

namespace grokd::kernels {

/// Products of a few rows with one panel: [rows][groups][64].
struct PanelScratch {
  PanelScratch(Carver& carver, int rows, int groups)
      : y(carver.take<float>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(groups) *
                             kPanelColumns)) {}
  float* y;
};

struct RouterScratch {
  RouterScratch(Carver& carver, int width, int experts)
      : lanes(carver.take<float>(static_cast<std::size_t>(experts) * 64 + 16)),
        spread(carver.take<float>(static_cast<std::size_t>(width) * static_cast<std::size_t>(experts) + 16)),
        weight(carver.take<float>(static_cast<std::size_t>(experts) + 16)) {}
  float* lanes;
  float* spread;
  float* weight;
};

/// Entries (token, choice) grouped by expert. A line is an entry's place in that order.
struct ExpertLists {
  ExpertLists(Carver& carver, int entries, int experts, const ExpertLayout& layout)
      : begin(carver.take<std::int32_t>(count(experts) + 1)),
        filled(carver.take<std::int32_t>(count(experts))),
        active(carver.take<std::int32_t>(count(experts))),
        line(carver.take<std::int32_t>(count(entries))),
        token(carver.take<std::int32_t>(count(entries))),
        missing(carver.take<std::atomic<std::int32_t>>(count(experts) * count(layout.groups))),
        inner(carver.take<float>(count(entries) * count(layout.ffn))),
        codes(carver.take<std::byte>(count(entries) * CodeLayout{layout.ffn, layout.groups}.row_bytes())),
        scales(carver.take<float>(count(entries) * count(layout.groups))) {}

  static std::size_t count(int n) { return static_cast<std::size_t>(n); }

  std::int32_t* begin;                 // [E + 1] first line of each expert
  std::int32_t* filled;                // [E]
  std::int32_t* active;                // [active_count] experts with lines
  std::int32_t* line;                  // [entries], -1: skipped
  std::int32_t* token;                 // [lines]
  std::atomic<std::int32_t>* missing;  // [E][G] columns of the inner activations not yet computed
  float* inner;                        // [lines, F] activation(u) * v
  std::byte* codes;                    // the same, quantised
  float* scales;                       // [lines, G]
  int active_count = 0;
};

/// One panel of down for the lines of a run of tokens, and what one token takes of it.
struct DownScratch {
  DownScratch(Carver& carver, int entries, int experts, int groups, int per_token)
      : next(carver.take<std::int32_t>(static_cast<std::size_t>(experts))),
        parts_of(carver.take<float*>(static_cast<std::size_t>(experts))),
        parts(carver.take<float>(static_cast<std::size_t>(entries) * static_cast<std::size_t>(groups) *
                                 kPanelColumns)),
        chosen(carver.take<const float*>(static_cast<std::size_t>(per_token))),
        gates(carver.take<float>(static_cast<std::size_t>(per_token))) {}
  std::int32_t* next;    // [E] first line of each expert not yet taken
  float** parts_of;      // [E] where line 0 of each expert would lie in `parts`
  float* parts;          // [lines][groups][64]
  const float** chosen;  // [per_token] one token's lines
  float* gates;          // [per_token]
};

/// One row of `width` floats.
struct RowScratch {
  RowScratch(Carver& carver, int width) : row(carver.take<float>(static_cast<std::size_t>(width) + 16)) {}
  float* row;
};

inline constexpr int kQueriesATile = 32;

/// Queries of one KV head against a run of pages.
struct AttentionScratch {
  AttentionScratch(Carver& carver, int queries, int head_size, int blocks)
      : planes(carver.take<std::int16_t>(n(queries) * 2 * n(round_up(head_size, 16)))),
        scale(carver.take<float>(n(queries))),
        temperature(carver.take<float>(n(queries))),
        first(carver.take<int>(n(queries))),
        last(carver.take<int>(n(queries))),
        num(carver.take<float>(n(queries) * n(round_up(head_size, 16)))),
        den(carver.take<float>(n(queries))),
        most(carver.take<float>(n(queries))),
        factor(carver.take<float>(n(queries))),
        block_most(carver.take<float>(n(queries) * n(blocks))),
        scores(carver.take<float>(n(queries) * n(blocks) * 64)) {}

  static std::size_t n(int count) { return static_cast<std::size_t>(count); }

  std::int16_t* planes;
  float* scale;
  float* temperature;
  int* first;
  int* last;
  float* num;
  float* den;
  float* most;
  float* factor;
  float* block_most;  // [blocks][queries]
  float* scores;      // [blocks][queries][64]
};

/// First work tile of each sequence.
struct TileStarts {
  TileStarts(Carver& carver, int sequences)
      : first(carver.take<int>(static_cast<std::size_t>(sequences) + 1)) {}
  int* first;
};

/// One head's row and its codes.
struct RopeScratch {
  RopeScratch(Carver& carver, int head_size)
      : row(carver.take<float>(static_cast<std::size_t>(head_size) + 16)),
        codes(carver.take<std::int16_t>(static_cast<std::size_t>(head_size) + 16)) {}
  float* row;
  std::int16_t* codes;
};

/// Survivors of the filters of one row of logits, with their weights.
struct SampleScratch {
  SampleScratch(Carver& carver, int vocab)
      : ids(carver.take<std::int32_t>(static_cast<std::size_t>(vocab))),
        values(carver.take<float>(static_cast<std::size_t>(vocab) + 16)),
        weights(carver.take<std::uint64_t>(static_cast<std::size_t>(vocab) + 16)),
        sums(carver.take<std::uint64_t>(2048)) {}
  std::int32_t* ids;
  float* values;
  std::uint64_t* weights;
  std::uint64_t* sums;
};

}  // namespace grokd::kernels

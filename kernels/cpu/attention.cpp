// rope_store and attention. Keys and values lie in pages of 64 positions; see PageLayout.

#include <algorithm>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/op_scratch.h"

namespace grokd::kernels {
namespace {

PageLayout layout_of(const KvLayer& kv) { return {kv.kv_heads, kv.head_size, kv_code_bytes(kv.type)}; }

/// One KV head's part of one page, writable.
struct PageSlots {
  std::byte* keys;
  std::byte* values;
  float* key_scale;
  float* value_scale;
  int stride;
  bool narrow;

  PageSlots(const KvLayer& kv, std::int32_t page, int head)
      : stride(layout_of(kv).stride()), narrow(kv.type == KvType::int8) {
    const PageLayout layout = layout_of(kv);
    keys = kv.data + static_cast<std::size_t>(page) * kv.page_bytes +
           static_cast<std::size_t>(head) * layout.head_bytes();
    values = keys + layout.key_bytes();
    key_scale = reinterpret_cast<float*>(values + layout.value_bytes());
    value_scale = key_scale + kPagePositions;
  }

  float limit() const { return narrow ? 127.0f : 32767.0f; }
  static int key_at(int slot, int i) { return (i / 2 * kPagePositions + slot) * 2 + i % 2; }
  int value_at(int slot, int i) const { return (slot / 2 * stride + i) * 2 + slot % 2; }

  std::int16_t code(const std::byte* codes, int at) const {
    return narrow ? reinterpret_cast<const std::int8_t*>(codes)[at]
                  : reinterpret_cast<const std::int16_t*>(codes)[at];
  }
  void set(std::byte* codes, int at, std::int16_t code) const {
    if (narrow) {
      reinterpret_cast<std::int8_t*>(codes)[at] = static_cast<std::int8_t>(code);
    } else {
      reinterpret_cast<std::int16_t*>(codes)[at] = code;
    }
  }
};

struct Token {
  const SequenceRows* sequence;
  int row, position;
};

/// The token of the i-th row of the step, counting the sequences' rows in order.
Token token_at(std::span<const SequenceRows> sequences, int i) {
  const SequenceRows* sequence = sequences.data();
  for (; i >= sequence->rows; ++sequence) i -= sequence->rows;
  return {sequence, sequence->first_row + i, sequence->position + i};
}

int total_rows(std::span<const SequenceRows> sequences) {
  int rows = 0;
  for (const SequenceRows& sequence : sequences) rows += sequence.rows;
  return rows;
}

// ---- attention -------------------------------------------------------------------------------------------

/// Consecutive rows of one sequence with all query heads of one KV head.
struct AttentionTile {
  const SequenceRows* sequence;
  int kv_head;
  int first, rows;  // rows of the sequence
};

struct AttentionStep {
  const VectorKernels& kernels;
  const Quantised& q;
  std::span<const SequenceRows> sequences;
  const KvLayer& kv;
  const AttentionShape& shape;
  const MatrixView<float>& o;
  int rows_a_tile;

  int heads_each() const { return shape.heads / kv.kv_heads; }
  int tiles_of(const SequenceRows& sequence) const {
    return ceil_div(sequence.rows, rows_a_tile) * kv.kv_heads;
  }
  int stride() const { return layout_of(kv).stride(); }

  AttentionTile tile_at(int tile, const int* starts) const;
  void load_queries(const AttentionTile& tile, const AttentionScratch& own) const;
  void set_visible(const AttentionTile& tile, int block, const AttentionScratch& own) const;
  PageHead page(const AttentionTile& tile, int block) const;
  void attend(const AttentionTile& tile, const AttentionScratch& own) const;
  void finish(const AttentionTile& tile, const AttentionScratch& own) const;
  void attend_capped(const AttentionTile& tile, int first_block, int last_block, AttentionQueries& queries,
                     const AttentionScratch& own) const;
  void attend_uncapped(const AttentionTile& tile, int first_block, int last_block, AttentionQueries& queries,
                       const AttentionScratch& own) const;
  int first_visible(int position) const {
    return shape.window > 0 ? std::max(0, position - shape.window + 1) : 0;
  }
};

/// Later rows see more keys: they go first, so that the last tiles are short ones.
AttentionTile AttentionStep::tile_at(int tile, const int* starts) const {
  const auto* after = std::upper_bound(starts, starts + sequences.size(), tile);
  const auto s = static_cast<std::size_t>(after - starts - 1);
  const SequenceRows& sequence = sequences[s];
  const int chunks = ceil_div(sequence.rows, rows_a_tile);
  const int chunk = chunks - 1 - (tile - starts[s]) / kv.kv_heads;
  const int first = chunk * rows_a_tile;
  return {&sequence, (tile - starts[s]) % kv.kv_heads, first, std::min(rows_a_tile, sequence.rows - first)};
}

void AttentionStep::load_queries(const AttentionTile& tile, const AttentionScratch& own) const {
  const CodeLayout layout{kv.head_size, 1};
  int query = 0;
  for (int r = 0; r < tile.rows; ++r) {
    for (int h = 0; h < heads_each(); ++h, ++query) {
      const int row =
          (tile.sequence->first_row + tile.first + r) * shape.heads + tile.kv_head * heads_each() + h;
      kernels.split_codes(q.codes + static_cast<std::size_t>(row) * layout.row_bytes(), layout.plane(),
                          kv.head_size, stride(), own.planes + std::ptrdiff_t{query} * 2 * stride());
      own.scale[query] = q.scales[row];
      if (shape.temperature)
        own.temperature[query] = shape.temperature[tile.sequence->position + tile.first + r];
    }
  }
  std::fill_n(own.num, std::ptrdiff_t{query} * stride(), 0.0f);
  std::fill_n(own.den, query, 0.0f);
  std::fill_n(own.most, query, -std::numeric_limits<float>::infinity());
}

void AttentionStep::set_visible(const AttentionTile& tile, int block, const AttentionScratch& own) const {
  int query = 0;
  for (int r = 0; r < tile.rows; ++r) {
    const int position = tile.sequence->position + tile.first + r;
    const int first = std::max(first_visible(position) - block * kPagePositions, 0);
    const int last = std::min(position + 1 - block * kPagePositions, kPagePositions);
    for (int h = 0; h < heads_each(); ++h, ++query) own.first[query] = first, own.last[query] = last;
  }
}

PageHead AttentionStep::page(const AttentionTile& tile, int block) const {
  const PageSlots slots(kv, tile.sequence->pages[static_cast<std::size_t>(block)], tile.kv_head);
  return {slots.keys, slots.values, slots.key_scale, slots.value_scale, slots.narrow};
}

void AttentionStep::attend_capped(const AttentionTile& tile, int first_block, int last_block,
                                  AttentionQueries& queries, const AttentionScratch& own) const {
  for (int block = first_block; block <= last_block; ++block) {
    set_visible(tile, block, own);
    const PageHead head = page(tile, block);
    kernels.scores(queries, head, own.scores);
    kernels.accumulate(queries, head, own.scores, nullptr, nullptr, own.num, own.den);
  }
}

/// The scores of all blocks come first: each block counts exp(its largest - the largest of all).
void AttentionStep::attend_uncapped(const AttentionTile& tile, int first_block, int last_block,
                                    AttentionQueries& queries, const AttentionScratch& own) const {
  const std::ptrdiff_t block_scores = std::ptrdiff_t{queries.count} * kPagePositions;
  for (int block = first_block; block <= last_block; ++block) {
    set_visible(tile, block, own);
    float* scores = own.scores + (block - first_block) * block_scores;
    float* block_most = own.block_most + std::ptrdiff_t{block - first_block} * queries.count;
    kernels.scores(queries, page(tile, block), scores);
    kernels.block_max(queries, scores, block_most);
    for (int i = 0; i < queries.count; ++i) {
      if (own.first[i] < own.last[i]) own.most[i] = std::max(own.most[i], block_most[i]);
    }
  }
  for (int block = first_block; block <= last_block; ++block) {
    set_visible(tile, block, own);
    const float* block_most = own.block_most + std::ptrdiff_t{block - first_block} * queries.count;
    for (int i = 0; i < queries.count; ++i) own.factor[i] = kernels.exp(block_most[i] - own.most[i]);
    kernels.accumulate(queries, page(tile, block), own.scores + (block - first_block) * block_scores,
                       block_most, own.factor, own.num, own.den);
  }
}

void AttentionStep::attend(const AttentionTile& tile, const AttentionScratch& own) const {
  load_queries(tile, own);
  AttentionQueries queries{
      tile.rows * heads_each(), kv.head_size, stride(), own.planes, own.scale, own.first, own.last,
      shape.multiplier,         shape.cap,    0,        nullptr};
  if (shape.cap != 0) queries.inverse_cap = static_cast<float>(1.0 / static_cast<double>(shape.cap));
  if (shape.temperature) queries.temperature = own.temperature;
  const int position = tile.sequence->position + tile.first;
  const int first_block = first_visible(position) / kPagePositions;
  const int last_block = (position + tile.rows - 1) / kPagePositions;
  if (shape.cap != 0) {
    attend_capped(tile, first_block, last_block, queries, own);
  } else {
    attend_uncapped(tile, first_block, last_block, queries, own);
  }
  finish(tile, own);
}

void AttentionStep::finish(const AttentionTile& tile, const AttentionScratch& own) const {
  const float* range =
      kv.type == KvType::int8 ? kv.ranges.value + std::ptrdiff_t{tile.kv_head} * kv.head_size : nullptr;
  int query = 0;
  for (int r = 0; r < tile.rows; ++r) {
    float* out = o.row(tile.sequence->first_row + tile.first + r) +
                 std::ptrdiff_t{tile.kv_head} * heads_each() * kv.head_size;
    for (int h = 0; h < heads_each(); ++h, ++query, out += kv.head_size) {
      kernels.divide(own.num + std::ptrdiff_t{query} * stride(), own.den[query], kv.head_size, out);
      if (range) kernels.multiply(out, range, kv.head_size, out);
    }
  }
}

}  // namespace

std::size_t CpuBackend::kv_page_bytes(int kv_heads, int head_size, KvType type) const {
  return PageLayout{kv_heads, head_size, kv_code_bytes(type)}.page_bytes();
}

void CpuBackend::read_kv(const KvLayer& kv, std::int32_t page, int count, std::int16_t* key_codes,
                         float* key_scales, std::int16_t* value_codes, float* value_scales) {
  for (int head = 0; head < kv.kv_heads; ++head) {
    const PageSlots slots(kv, page, head);
    for (int slot = 0; slot < count; ++slot) {
      const std::ptrdiff_t entry = std::ptrdiff_t{slot} * kv.kv_heads + head;
      key_scales[entry] = slots.key_scale[slot];
      value_scales[entry] = slots.value_scale[slot];
      for (int i = 0; i < kv.head_size; ++i) {
        key_codes[entry * kv.head_size + i] = slots.code(slots.keys, slots.key_at(slot, i));
        value_codes[entry * kv.head_size + i] = slots.code(slots.values, slots.value_at(slot, i));
      }
    }
  }
}

void CpuBackend::rope_store(MatrixView<const float> qkv, std::span<const SequenceRows> sequences,
                            const RopeTable& rope, const KvLayer& kv, int heads, const Quantised& q) {
  const int size = kv.head_size, heads_each = heads / kv.kv_heads;
  const bool narrow = kv.type == KvType::int8;
  scratch_.reserve_own(bytes_of<RopeScratch>(size));
  for_rows(total_rows(sequences), static_cast<int>(qkv.cols), [&](int i, int thread) {
    Carver carver = scratch_.own(thread);
    const RopeScratch own(carver, size);
    const Token token = token_at(sequences, i);
    const std::ptrdiff_t angle = std::ptrdiff_t{token.position} * rope.half;
    const float *cosine = rope.cos.as<float>() + angle, *sine = rope.sin.as<float>() + angle;
    const float* x = qkv.row(token.row);
    const auto scaled = [&](const float* from, const float* factors, int kv_head) {
      if (narrow) vector().multiply(from, factors + std::ptrdiff_t{kv_head} * size, size, own.row);
      return narrow ? own.row : from;
    };
    for (int head = 0; head < heads; ++head, x += size) {
      vector().rope(x, cosine, sine, rope.half, own.row);
      quantise_row(scaled(own.row, kv.ranges.key, head / heads_each), q, token.row * heads + head);
    }
    const std::int32_t page =
        token.sequence->pages[static_cast<std::size_t>(token.position / kPagePositions)];
    const int slot = token.position % kPagePositions;
    for (int head = 0; head < kv.kv_heads; ++head, x += size) {
      const PageSlots slots(kv, page, head);
      vector().rope(x, cosine, sine, rope.half, own.row);
      vector().quantise_plain(scaled(own.row, kv.ranges.key_inverse, head), size, slots.limit(), own.codes,
                              slots.key_scale + slot);
      for (int c = 0; c < size; ++c) slots.set(slots.keys, slots.key_at(slot, c), own.codes[c]);
    }
    for (int head = 0; head < kv.kv_heads; ++head, x += size) {
      const PageSlots slots(kv, page, head);
      vector().quantise_plain(scaled(x, kv.ranges.value_inverse, head), size, slots.limit(), own.codes,
                              slots.value_scale + slot);
      for (int c = 0; c < size; ++c) slots.set(slots.values, slots.value_at(slot, c), own.codes[c]);
    }
  });
}

void CpuBackend::attention(const Quantised& q, std::span<const SequenceRows> sequences, const KvLayer& kv,
                           const AttentionShape& shape, MatrixView<float> o) {
  const int heads_each = shape.heads / kv.kv_heads;
  const int rows_a_tile = std::max(1, kQueriesATile / heads_each);
  const AttentionStep step{vector(), q, sequences, kv, shape, o, rows_a_tile};
  scratch_.reserve_shared(bytes_of<TileStarts>(static_cast<int>(sequences.size())));
  Carver shared = scratch_.shared();
  const TileStarts starts(shared, static_cast<int>(sequences.size()));
  int tiles = 0, longest = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    starts.first[s] = tiles;
    tiles += step.tiles_of(sequences[s]);
    longest = std::max(longest, sequences[s].position + sequences[s].rows);
  }
  const int queries = rows_a_tile * heads_each, blocks = ceil_div(longest, kPagePositions) + 1;
  scratch_.reserve_own(bytes_of<AttentionScratch>(queries, kv.head_size, blocks));
  pool_.parallel_for(tiles, [&](int tile, int thread) {
    Carver own = scratch_.own(thread);
    step.attend(step.tile_at(tile, starts.first), AttentionScratch(own, queries, kv.head_size, blocks));
  });
}

}  // namespace grokd::kernels

// Attention over the cache in blocks of 64 positions (sections 5.4 to 5.6).

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/layout.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels::reference {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Query {
  const std::int16_t* codes;
  float scale;
  int kv_head;
  float temperature;  // 1 where there is none
};

/// The visible slots [first, last) of one page.
struct Block {
  Page page;
  int first, last;
};

struct BlockResult {
  std::vector<float> numerator;  // [C]
  float denominator = 0;
  float largest = kMinusInfinity;  // of the scores; only without a cap
};

float score(const Query& query, const Block& block, const KvLayer& kv, const AttentionShape& shape,
            int slot) {
  const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(slot) * kv.kv_heads + query.kv_head;
  const std::ptrdiff_t key = entry * kv.head_size;
  std::int64_t sum = 0;
  for (int i = 0; i < kv.head_size; ++i) {
    sum += static_cast<std::int32_t>(query.codes[i]) * block.page.key_codes[key + i];
  }
  const float s = static_cast<float>(sum) * (query.scale * block.page.key_scales[entry]);
  return soft_cap(s * shape.multiplier, shape.cap) * query.temperature;
}

/// num[i] = f32(sum of the weights' codes times the values' codes) * scale, weights = e_j * s_v[j].
std::vector<float> weighted_values(const float* exponentials, const Block& block, const KvLayer& kv,
                                   int kv_head) {
  const int count = block.last - block.first;
  std::vector<float> weights(static_cast<std::size_t>(count));
  std::vector<std::int16_t> codes(static_cast<std::size_t>(count));
  std::vector<std::int64_t> sums(static_cast<std::size_t>(kv.head_size));
  const auto entry = [&](int j) {
    return static_cast<std::ptrdiff_t>(block.first + j) * kv.kv_heads + kv_head;
  };
  for (int j = 0; j < count; ++j) {
    weights[j] = exponentials[block.first + j] * block.page.value_scales[entry(j)];
  }
  const float scale = quantise_row(weights, kActivationCode, codes.data());
  for (int j = 0; j < count; ++j) {
    const std::ptrdiff_t value = entry(j) * kv.head_size;
    for (int i = 0; i < kv.head_size; ++i) {
      sums[i] += static_cast<std::int32_t>(codes[j]) * block.page.value_codes[value + i];
    }
  }
  std::vector<float> numerator(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) numerator[i] = static_cast<float>(sums[i]) * scale;
  return numerator;
}

BlockResult attend_block(const Query& query, const Block& block, const KvLayer& kv,
                         const AttentionShape& shape) {
  float values[kPagePositions] = {};  // scores, then their exponentials; 0 where nothing is visible
  BlockResult result;
  for (int j = block.first; j < block.last; ++j) {
    values[j] = score(query, block, kv, shape, j);
    if (values[j] > result.largest) result.largest = values[j];
  }
  for (int j = block.first; j < block.last; ++j) {
    values[j] = exp_f32(shape.cap != 0.0f ? values[j] : values[j] - result.largest);
  }
  result.numerator = weighted_values(values, block, kv, query.kv_head);
  result.denominator = sum_of_lanes(values);
  return result;
}

/// Blocks in rising order; capped scores need no common maximum.
void combine(const std::vector<BlockResult>& blocks, bool capped, float* o) {
  float largest = kMinusInfinity;
  for (const BlockResult& block : blocks) largest = std::max(largest, block.largest);
  std::vector<float> numerator(blocks.front().numerator.size());
  float denominator = 0;
  for (const BlockResult& block : blocks) {
    const float factor = capped ? 1.0f : exp_f32(block.largest - largest);
    for (std::size_t i = 0; i < numerator.size(); ++i) {
      numerator[i] = numerator[i] + block.numerator[i] * factor;
    }
    denominator = denominator + block.denominator * factor;
  }
  for (std::size_t i = 0; i < numerator.size(); ++i) o[i] = numerator[i] / denominator;
}

/// The blocks that a query at `position` sees a part of.
std::vector<Block> visible_blocks(const SequenceRows& sequence, int position, const KvLayer& kv, int window) {
  const int first = window > 0 ? std::max(0, position - window + 1) : 0;
  std::vector<Block> blocks;
  for (int b = first / kPagePositions; b <= position / kPagePositions; ++b) {
    const int start = b * kPagePositions;
    blocks.push_back({Page::at(kv, sequence.pages[static_cast<std::size_t>(b)]), std::max(first - start, 0),
                      std::min(position + 1 - start, kPagePositions)});
  }
  return blocks;
}

}  // namespace

void ReferenceBackend::attention(const Quantised& q, std::span<const SequenceRows> sequences,
                                 const KvLayer& kv, const AttentionShape& shape, MatrixView<float> o) {
  const int heads_per_kv_head = shape.heads / kv.kv_heads;
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const int row = sequence.first_row + i;
      const int position = sequence.position + i;
      const auto blocks = visible_blocks(sequence, position, kv, shape.window);
      const float temperature = shape.temperature != nullptr ? shape.temperature[position] : 1.0f;
      for (int head = 0; head < shape.heads; ++head) {
        const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(row) * shape.heads + head;
        const Query query{code_row(q, entry), *scale_row(q, entry), head / heads_per_kv_head, temperature};
        std::vector<BlockResult> results;
        for (const Block& block : blocks) results.push_back(attend_block(query, block, kv, shape));
        float* out = o.row(row) + static_cast<std::ptrdiff_t>(head) * kv.head_size;
        combine(results, shape.cap != 0.0f, out);
        if (kv.type == KvType::int16) continue;
        const float* range = kv.ranges.value + query.kv_head * kv.head_size;
        for (int c = 0; c < kv.head_size; ++c) out[c] = out[c] * range[c];
      }
    }
  }
}

}  // namespace grokd::kernels::reference

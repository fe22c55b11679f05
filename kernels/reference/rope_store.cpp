// RoPE of queries and keys, and what goes into the cache (sections 5.2 and 5.3).

#include <cmath>
#include <vector>

#include "kernels/reference/layout.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels::reference {
namespace {

struct Angles {
  const float* cos;
  const float* sin;
  int half;
};

std::vector<float> rotated(const float* x, const Angles& angles) {
  const int half = angles.half;
  std::vector<float> y(static_cast<std::size_t>(2 * half));
  for (int i = 0; i < half; ++i) {
    const float c = angles.cos[i], s = angles.sin[i];
    y[i] = std::fma(x[i], c, -(x[i + half] * s));
    y[i + half] = std::fma(x[i + half], c, x[i] * s);
  }
  return y;
}

void multiply(std::vector<float>& x, const float* factors) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * factors[i];
}

/// The codes of one row, from `codes[first]` on; returns their scale.
float store_row(const std::vector<float>& x, const CacheCodes& codes, std::ptrdiff_t first) {
  std::vector<std::int16_t> row(x.size());
  const float scale = quantise_row(x, codes.type == KvType::int8 ? kByteCode : kActivationCode, row.data());
  for (const std::int16_t code : row) codes.set(first++, code);
  return scale;
}

/// Keys and values of one token, [K, C] each, into slot `slot` of its page.
void store(const float* keys, const float* values, const Angles& angles, const KvLayer& kv, const Page& page,
           int slot) {
  const int size = kv.head_size;
  for (int head = 0; head < kv.kv_heads; ++head) {
    const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(slot) * kv.kv_heads + head;
    std::vector<float> key = rotated(keys + head * size, angles);
    std::vector<float> value(values + head * size, values + (head + 1) * size);
    if (kv.type == KvType::int8) {
      multiply(key, kv.ranges.key_inverse + head * size);
      multiply(value, kv.ranges.value_inverse + head * size);
    }
    page.key_scales[entry] = store_row(key, page.key_codes, entry * size);
    page.value_scales[entry] = store_row(value, page.value_codes, entry * size);
  }
}

}  // namespace

void ReferenceBackend::rope_store(MatrixView<const float> qkv, std::span<const SequenceRows> sequences,
                                  const RopeTable& rope, const KvLayer& kv, int heads, const Quantised& q) {
  const int size = kv.head_size, heads_per_kv_head = heads / kv.kv_heads;
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const int row = sequence.first_row + i;
      const int position = sequence.position + i;
      const std::ptrdiff_t first_angle = static_cast<std::ptrdiff_t>(position) * rope.half;
      const Angles angles{rope.cos.as<float>() + first_angle, rope.sin.as<float>() + first_angle, rope.half};
      const float* queries = qkv.row(row);
      for (int head = 0; head < heads; ++head) {
        const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(row) * heads + head;
        std::vector<float> query = rotated(queries + head * size, angles);
        if (kv.type == KvType::int8) multiply(query, kv.ranges.key + head / heads_per_kv_head * size);
        *scale_row(q, entry) = quantise_row(query, kActivationCode, code_row(q, entry));
      }
      const float* keys = queries + heads * size;
      const Page page = Page::at(kv, sequence.pages[static_cast<std::size_t>(position / kPagePositions)]);
      store(keys, keys + kv.kv_heads * size, angles, kv, page, position % kPagePositions);
    }
  }
}

}  // namespace grokd::kernels::reference

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

/// Keys and values of one token, [K, C] each, into slot `slot` of its page.
void store(const float* keys, const float* values, const Angles& angles, const KvLayer& kv, const Page& page,
           int slot) {
  const int size = kv.head_size;
  for (int head = 0; head < kv.kv_heads; ++head) {
    const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(slot) * kv.kv_heads + head;
    const std::vector<float> key = rotated(keys + head * size, angles);
    const std::span<const float> value(values + head * size, static_cast<std::size_t>(size));
    page.key_scales[entry] = quantise_row(key, kActivationCode, page.key_codes + entry * size);
    page.value_scales[entry] = quantise_row(value, kActivationCode, page.value_codes + entry * size);
  }
}

}  // namespace

void ReferenceBackend::rope_store(MatrixView<const float> qkv, std::span<const SequenceRows> sequences,
                                  const RopeTable& rope, const KvLayer& kv, int heads, const Quantised& q) {
  const int size = kv.head_size;
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const int row = sequence.first_row + i;
      const int position = sequence.position + i;
      const std::ptrdiff_t first_angle = static_cast<std::ptrdiff_t>(position) * rope.half;
      const Angles angles{rope.cos.as<float>() + first_angle, rope.sin.as<float>() + first_angle, rope.half};
      const float* queries = qkv.row(row);
      for (int head = 0; head < heads; ++head) {
        const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(row) * heads + head;
        const std::vector<float> query = rotated(queries + head * size, angles);
        *scale_row(q, entry) = quantise_row(query, kActivationCode, code_row(q, entry));
      }
      const float* keys = queries + heads * size;
      const Page page = Page::at(kv, sequence.pages[static_cast<std::size_t>(position / kPagePositions)]);
      store(keys, keys + kv.kv_heads * size, angles, kv, page, position % kPagePositions);
    }
  }
}

}  // namespace grokd::kernels::reference

#include "kernels/reference/layout.h"

namespace grokd::kernels::reference {
namespace {

/// Blocks follow each other at multiples of this, so that floats are aligned.
constexpr std::size_t kAlignment = 64;

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::size_t product(std::size_t a, std::size_t b, std::size_t c = 1) { return a * b * c; }

}  // namespace

PackedMatrix PackedMatrix::at(std::byte* data, int in, int out, int groups) {
  auto* scales = reinterpret_cast<float*>(data);
  return {in, out, groups, scales, reinterpret_cast<std::int8_t*>(scales + product(groups, out))};
}

std::size_t PackedMatrix::bytes(int in, int out, int groups) {
  return padded(product(groups, out, sizeof(float)) + product(in, out));
}

PackedExpert PackedExpert::at(std::byte* data, int width, int ffn, int groups) {
  const std::size_t in_bytes = PackedMatrix::bytes(width, ffn, 1);
  return {PackedMatrix::at(data, width, ffn, 1), PackedMatrix::at(data + in_bytes, width, ffn, 1),
          PackedMatrix::at(data + 2 * in_bytes, ffn, width, groups)};
}

std::size_t PackedExpert::bytes(int width, int ffn, int groups) {
  return 2 * PackedMatrix::bytes(width, ffn, 1) + PackedMatrix::bytes(ffn, width, groups);
}

PackedHead PackedHead::at(std::byte* data, int vocab) {
  auto* scales = reinterpret_cast<float*>(data);
  return {scales, reinterpret_cast<std::int16_t*>(scales + vocab)};
}

std::size_t PackedHead::bytes(int vocab, int width) {
  return product(vocab, sizeof(float)) + product(vocab, width, sizeof(std::int16_t));
}

Page Page::at(const KvLayer& kv, std::int32_t page) {
  std::byte* data = kv.data + static_cast<std::size_t>(page) * kv.page_bytes;
  const std::size_t scales = product(kPagePositions, kv.kv_heads);
  const std::size_t codes = product(scales, kv.head_size, kv_code_bytes(kv.type));
  auto* key_scales = reinterpret_cast<float*>(data + 2 * codes);
  return {{data, kv.type}, {data + codes, kv.type}, key_scales, key_scales + scales};
}

std::size_t Page::bytes(int kv_heads, int head_size, KvType type) {
  const std::size_t scales = product(kPagePositions, kv_heads);
  return padded(2 * product(scales, head_size, kv_code_bytes(type)) + 2 * product(scales, sizeof(float)));
}

}  // namespace grokd::kernels::reference

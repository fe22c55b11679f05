#pragma once
// Where things lie in the reference backend's blocks of memory.

#include "kernels/backend.h"

namespace grokd::kernels::reference {

/// A packed int8 matrix: scales [groups, out], then weights [in, out].
struct PackedMatrix {
  int in = 0, out = 0, groups = 1;
  float* scales = nullptr;
  std::int8_t* weights = nullptr;

  static PackedMatrix at(std::byte* data, int in, int out, int groups);
  static std::size_t bytes(int in, int out, int groups);
};

/// The three matrices of one expert, one after the other.
struct PackedExpert {
  PackedMatrix gate, up, down;

  static PackedExpert at(std::byte* data, int width, int ffn, int groups);
  static std::size_t bytes(int width, int ffn, int groups);
};

/// The output embedding: scales [vocab], then codes [vocab, width].
struct PackedHead {
  float* scales = nullptr;
  std::int16_t* codes = nullptr;

  static PackedHead at(std::byte* data, int vocab);
  static std::size_t bytes(int vocab, int width);
};

/// Codes of 8 or 16 bits in plain order.
struct CacheCodes {
  std::byte* data = nullptr;
  KvType type = KvType::int16;

  std::int16_t operator[](std::ptrdiff_t i) const {
    return type == KvType::int8 ? reinterpret_cast<const std::int8_t*>(data)[i]
                                : reinterpret_cast<const std::int16_t*>(data)[i];
  }
  void set(std::ptrdiff_t i, std::int16_t code) const {
    if (type == KvType::int8) {
      reinterpret_cast<std::int8_t*>(data)[i] = static_cast<std::int8_t>(code);
    } else {
      reinterpret_cast<std::int16_t*>(data)[i] = code;
    }
  }
};

/// One page of the cache: codes [64, K, C] of keys, then of values; scales [64, K] of keys, then of values.
struct Page {
  CacheCodes key_codes, value_codes;
  float* key_scales = nullptr;
  float* value_scales = nullptr;

  static Page at(const KvLayer& kv, std::int32_t page);
  static std::size_t bytes(int kv_heads, int head_size, KvType type);
};

inline std::int16_t* code_row(const Quantised& x, std::ptrdiff_t row) {
  return reinterpret_cast<std::int16_t*>(x.codes) + row * x.cols;
}
inline float* scale_row(const Quantised& x, std::ptrdiff_t row) { return x.scales + row * x.groups; }

}  // namespace grokd::kernels::reference

#pragma once
// Where keys and values lie in a page (layout.h), for host and device.

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/runtime.h"

namespace grokd::kernels::cuda {

/// One KV head of one page.
struct PageHead {
  unsigned char* keys;
  unsigned char* values;
  float* key_scales;
  float* value_scales;
  PageLayout layout;

  __host__ __device__ unsigned char* key(int slot, int i) const {
    const int run = layout.key_run();
    return keys + (static_cast<std::ptrdiff_t>(i / run) * kPagePositions + slot) * 16 +
           i % run * layout.code_bytes;
  }
  __host__ __device__ unsigned char* value(int slot, int i) const {
    return values + (static_cast<std::ptrdiff_t>(slot) * layout.head_size + i) * layout.code_bytes;
  }
  /// One code at its place.
  __host__ __device__ void put(unsigned char* at, int code) const {
    at[0] = static_cast<unsigned char>(code);
    if (layout.code_bytes == 2) at[1] = static_cast<unsigned char>(code >> 8);
  }
  __host__ __device__ int get(const unsigned char* at) const {
    if (layout.code_bytes == 1) return static_cast<signed char>(at[0]);
    return static_cast<signed char>(at[1]) * 256 + at[0];
  }
};

struct KvPages {
  std::byte* data;
  std::size_t page_bytes;
  PageLayout layout;
  KvRanges ranges;  // null pointers where codes have 16 bits

  __host__ __device__ PageHead head(std::int32_t page, int head) const {
    auto* keys = reinterpret_cast<unsigned char*>(data) + static_cast<std::size_t>(page) * page_bytes +
                 static_cast<std::size_t>(head) * layout.head_bytes();
    unsigned char* values = keys + layout.key_bytes();
    auto* scales = reinterpret_cast<float*>(values + layout.value_bytes());
    return {keys, values, scales, scales + kPagePositions, layout};
  }
};

inline KvPages kv_pages(const KvLayer& kv) {
  return {kv.data,
          kv.page_bytes,
          {kv.kv_heads, kv.head_size, kv_code_bytes(kv.type)},
          kv.type == KvType::int8 ? kv.ranges : KvRanges{}};
}

}  // namespace grokd::kernels::cuda

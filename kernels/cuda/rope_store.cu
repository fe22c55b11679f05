// RoPE of queries and keys, and what goes into the cache (docs/numerics.md, sections 5.2 and 5.3): one warp a
// head of a row.

#include "kernels/cuda/block.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/page.h"
#include "kernels/cuda/step_rows.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kWarps = 4;

struct RopeJob {
  const float* qkv;
  std::ptrdiff_t stride;
  StepRows rows;
  const float* cos;
  const float* sin;
  int heads;
  KvPages kv;
  CodeRows q;
};

/// Element i of a head, times its factor where there is one.
struct Plain {
  const float* x;
  const float* factor;

  __device__ float operator()(int i) const { return factor == nullptr ? x[i] : x[i] * factor[i]; }
};

/// The same of a rotated head.
struct Rotated {
  const float* x;
  const float* cos;
  const float* sin;
  int half;
  const float* factor;

  __device__ float operator()(int i) const {
    const float y = rotate(i);
    return factor == nullptr ? y : y * factor[i];
  }
  __device__ float rotate(int i) const {
    if (i < half) return __fmaf_rn(x[i], cos[i], -(x[i + half] * sin[i]));
    return __fmaf_rn(x[i], cos[i - half], x[i - half] * sin[i - half]);
  }
};

/// put(i, code) for every element; the scale goes to *scale.
template <class Value, class Put>
__device__ void quantise_by_warp(const Value& value, int length, float limit, float* scale, const Put& put) {
  unsigned largest = 0;
  for (int i = lane(); i < length; i += kWarp) {
    const unsigned bits = magnitude(value(i));
    if (bits > largest) largest = bits;
  }
  const Quantiser q = quantiser_of(warp_reduce(largest, Larger{}), limit);
  if (lane() == 0) *scale = q.scale;
  for (int i = lane(); i < length; i += kWarp) put(i, code_of(q, value(i)));
}

__global__ void rope_rows(RopeJob job) {
  const int head = static_cast<int>(blockIdx.x) * kWarps + warp();  // queries, keys, values
  const int entry = static_cast<int>(blockIdx.y);
  const int size = job.kv.layout.head_size, kv_heads = job.kv.layout.kv_heads;
  if (head >= job.heads + 2 * kv_heads) return;
  const int row = job.rows.row[entry], position = job.rows.position[entry];
  const float* x = job.qkv + row * job.stride + static_cast<std::ptrdiff_t>(head) * size;
  const int half = size / 2;
  const std::ptrdiff_t angle = static_cast<std::ptrdiff_t>(position) * half;
  const KvRanges& ranges = job.kv.ranges;
  const auto factor = [&](const float* of_layer, int kv_head) {
    return of_layer == nullptr ? nullptr : of_layer + static_cast<std::ptrdiff_t>(kv_head) * size;
  };
  if (head < job.heads) {
    const Rotated query{x, job.cos + angle, job.sin + angle, half,
                        factor(ranges.key, head / (job.heads / kv_heads))};
    const int out = row * job.heads + head;
    unsigned char* run = job.q.run(out, 0);
    quantise_by_warp(query, size, kActivationCode, job.q.scale(out, 0), [&](int i, int code) {
      unsigned char* to =
          run + static_cast<std::ptrdiff_t>(i / kTileInputs) * kTileBytes + code_byte(i % kTileInputs);
      to[0] = static_cast<unsigned char>(code >> 8);
      to[kLowPlane] = static_cast<unsigned char>(code);
    });
    return;
  }
  const int kv_head = (head - job.heads) % kv_heads, slot = position % kPagePositions;
  const float limit = job.kv.layout.code_bytes == 1 ? kByteCode : kActivationCode;
  const PageHead page = job.kv.head(job.rows.page(entry, position / kPagePositions), kv_head);
  if (head < job.heads + kv_heads) {
    const Rotated key{x, job.cos + angle, job.sin + angle, half, factor(ranges.key_inverse, kv_head)};
    quantise_by_warp(key, size, limit, page.key_scales + slot,
                     [&](int i, int code) { page.put(page.key(slot, i), code); });
  } else {
    const Plain value{x, factor(ranges.value_inverse, kv_head)};
    quantise_by_warp(value, size, limit, page.value_scales + slot,
                     [&](int i, int code) { page.put(page.value(slot, i), code); });
  }
}

}  // namespace

StepRows CudaBackend::rows_of(std::span<const SequenceRows> sequences) {
  std::vector<std::int32_t>& table = step_table_;
  table.clear();
  int count = 0;
  for (const SequenceRows& s : sequences) count += s.rows;
  table.resize(static_cast<std::size_t>(count) * 3);
  StepRows rows;
  rows.count = count;
  int entry = 0, first_page = 0;
  for (const SequenceRows& s : sequences) {
    for (int i = 0; i < s.rows; ++i, ++entry) {
      table[static_cast<std::size_t>(entry)] = s.first_row + i;
      table[static_cast<std::size_t>(count + entry)] = s.position + i;
      table[static_cast<std::size_t>(2 * count + entry)] = first_page;
    }
    const int end = s.position + s.rows;
    const auto pages = static_cast<std::size_t>(ceil_div(end, kPagePositions));
    table.insert(table.end(), s.pages.begin(), s.pages.begin() + static_cast<std::ptrdiff_t>(pages));
    first_page += static_cast<int>(pages);
    if (end > rows.longest) rows.longest = end;
  }
  if (block_class_ > 0) rows.longest = block_class_ * kPagePositions;
  const auto* sent = reinterpret_cast<const std::int32_t*>(
      step_rows_.send(table.data(), table.size() * sizeof(std::int32_t), stream()));
  rows.row = sent;
  rows.position = sent + count;
  rows.first_page = sent + 2 * count;
  rows.pages = sent + 3 * count;
  return rows;
}

void CudaBackend::rope_store(MatrixView<const float> qkv, std::span<const SequenceRows> sequences,
                             const RopeTable& rope, const KvLayer& kv, int heads, const Quantised& q) {
  const StepRows rows = rows_of(sequences);
  const RopeJob job{qkv.data, qkv.stride,   rows,        rope.cos.as<float>(), rope.sin.as<float>(),
                    heads,    kv_pages(kv), code_rows(q)};
  const dim3 grid(static_cast<unsigned>(ceil_div(heads + 2 * kv.kv_heads, kWarps)),
                  static_cast<unsigned>(rows.count));
  launch(rope_rows, grid, kWarps * kWarp, 0, stream(), job);
}

}  // namespace grokd::kernels::cuda

// Attention in blocks of 64 positions (docs/numerics.md, sections 5.4 to 5.6). First every (row, KV head,
// block) on its own: a warp takes one query head, its lanes two positions each, then the channels. Then each
// head of a row adds its blocks in rising order.

#include <algorithm>

#include "kernels/cuda/attention_scratch.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/page.h"
#include "kernels/cuda/step_rows.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kWarps = 4;

struct AttentionJob {
  StepRows rows;
  int first_entry;  // of the rows of this launch
  CodeRows q;
  KvPages kv;
  int heads, heads_per_kv;
  float multiplier;
  SoftCap cap;
  int window;
  const float* temperature;  // of each position, or null
  int blocks;                // [entries, heads, blocks] results, the first visible block of a row in place 0
  float* numerators;         // [entries, heads, blocks, C]
  float* denominators;       // [entries, heads, blocks]
  float* largest;            // the same
  float* o;
  std::ptrdiff_t o_stride;

  __device__ int first_position(int entry) const {
    const int position = rows.position[entry];
    return window > 0 && position - window + 1 > 0 ? position - window + 1 : 0;
  }
  __device__ std::ptrdiff_t result(int entry, int head, int block) const {
    return (static_cast<std::ptrdiff_t>(entry - first_entry) * heads + head) * blocks + block;
  }
};

struct QueryScale {
  float query, multiplier;
  SoftCap cap;
  float temperature;
};

/// The score of one position; q: codes of the head in shared memory. Keys are read 16 bytes at a time.
template <int kCodeBytes>
__device__ float score(const SharedArray<int>& q, const PageHead& page, int slot, const QueryScale& scale) {
  constexpr int kRun = 16 / kCodeBytes, kEachWord = 4 / kCodeBytes, kBits = 8 * kCodeBytes;
  const int size = page.layout.head_size;
  long long sum = 0;
  for (int first = 0; first < size; first += kRun) {
    const int4 run = *reinterpret_cast<const int4*>(page.key(slot, first));
    const int words[4] = {run.x, run.y, run.z, run.w};
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const int code = words[i / kEachWord] << (32 - kBits - i % kEachWord * kBits) >> (32 - kBits);
      if (first + i < size) sum += static_cast<long long>(q[first + i]) * code;
    }
  }
  const float s = __ll2float_rn(sum) * (scale.query * page.key_scales[slot]);
  return soft_cap(s * scale.multiplier, scale.cap) * scale.temperature;
}

/// num[i] for this lane's channels; codes: of the weights [64], 0 where nothing is visible.
template <int kCodeBytes>
__device__ void weighted_values(const SharedArray<int>& codes, const PageHead& page, int first, int last,
                                float scale, float* numerator) {
  const int size = page.layout.head_size;
  for (int i = lane(); i < size; i += kWarp) {
    const unsigned char* value = page.value(first, i);
    long long sum = 0;
#pragma unroll 4
    for (int slot = first; slot < last; ++slot, value += static_cast<std::ptrdiff_t>(size) * kCodeBytes) {
      int code = static_cast<signed char>(*value);
      if constexpr (kCodeBytes == 2) code = *reinterpret_cast<const std::int16_t*>(value);
      sum += static_cast<long long>(codes[slot]) * code;
    }
    numerator[i] = __ll2float_rn(sum) * scale;
  }
}

/// One query head against the visible slots [first, last) of a block.
template <int kCodeBytes>
__device__ void attend(const AttentionJob& job, int entry, int head, int block, const PageHead& page,
                       int first, int last, const SharedArray<int>& q, const SharedArray<int>& codes) {
  const int query = job.rows.row[entry] * job.heads + head;
  const unsigned char* run = job.q.run(query, 0);
  __syncwarp();  // the shared codes of the head before are read
  for (int i = lane(); i < page.layout.head_size; i += kWarp) q[i] = read_code(run, i);
  __syncwarp();
  const float temperature = job.temperature ? job.temperature[job.rows.position[entry]] : 1.0f;
  const QueryScale scale{*job.q.scale(query, 0), job.multiplier, job.cap, temperature};
  const bool capped = job.cap.cap != 0.0f;
  float s[2], largest = -infinity();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int slot = lane() + half * kWarp;
    const bool visible = slot >= first && slot < last;
    s[half] = visible ? score<kCodeBytes>(q, page, slot, scale) : -infinity();
    if (visible && s[half] > largest) largest = s[half];
  }
  largest = warp_reduce(largest, Larger{});
  float e[2], weight[2];
  unsigned largest_weight = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int slot = lane() + half * kWarp;
    const bool visible = slot >= first && slot < last;
    e[half] = visible ? exp_f32(capped ? s[half] : s[half] - largest) : 0.0f;
    weight[half] = visible ? e[half] * page.value_scales[slot] : 0.0f;
    const unsigned bits = magnitude(weight[half]);
    if (bits > largest_weight) largest_weight = bits;
  }
  const Quantiser quantiser = quantiser_of(warp_reduce(largest_weight, Larger{}));
#pragma unroll
  for (int half = 0; half < 2; ++half) codes[lane() + half * kWarp] = code_of(quantiser, weight[half]);
  const float denominator = halve_lanes(e[0], e[1]);
  __syncwarp();
  const std::ptrdiff_t result = job.result(entry, head, block);
  weighted_values<kCodeBytes>(codes, page, first, last, quantiser.scale,
                              job.numerators + result * page.layout.head_size);
  if (lane() == 0) {
    job.denominators[result] = denominator;
    job.largest[result] = largest;
  }
}

template <int kCodeBytes>
__global__ void __launch_bounds__(kWarps* kWarp) attend_blocks(AttentionJob job) {
  SharedMemory shared;
  const int size = job.kv.layout.head_size;
  const auto all_q = shared.take<int>(static_cast<std::size_t>(kWarps) * static_cast<std::size_t>(size));
  const auto all_codes = shared.take<int>(static_cast<std::size_t>(kWarps) * kPagePositions);
  const int entry = job.first_entry + static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int position = job.rows.position[entry], begin = job.first_position(entry);
  const int block = begin / kPagePositions + static_cast<int>(blockIdx.x);
  if (block > position / kPagePositions) return;
  const int start = block * kPagePositions;
  const int first = begin > start ? begin - start : 0;
  const int last = position + 1 - start < kPagePositions ? position + 1 - start : kPagePositions;
  const PageHead page = job.kv.head(job.rows.page(entry, block), kv_head);
  for (int i = warp(); i < job.heads_per_kv; i += kWarps) {
    attend<kCodeBytes>(job, entry, kv_head * job.heads_per_kv + i, static_cast<int>(blockIdx.x), page, first,
                       last, all_q.from(static_cast<std::ptrdiff_t>(warp()) * size),
                       all_codes.from(static_cast<std::ptrdiff_t>(warp()) * kPagePositions));
  }
}

__global__ void combine_blocks(AttentionJob job) {
  const int entry = job.first_entry + static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x);
  const int blocks =
      job.rows.position[entry] / kPagePositions - job.first_position(entry) / kPagePositions + 1;
  const std::ptrdiff_t result = job.result(entry, head, 0);
  const bool capped = job.cap.cap != 0.0f;
  float largest = -infinity();
  for (int b = 0; b < blocks; ++b) {
    if (job.largest[result + b] > largest) largest = job.largest[result + b];
  }
  const int size = job.kv.layout.head_size;
  const float* ranges = job.kv.ranges.value;
  if (ranges != nullptr) ranges += static_cast<std::ptrdiff_t>(head / job.heads_per_kv) * size;
  float* o = job.o + job.rows.row[entry] * job.o_stride + static_cast<std::ptrdiff_t>(head) * size;
  for (int i = thread(); i < size; i += threads()) {
    float numerator = 0, denominator = 0;
    for (int b = 0; b < blocks; ++b) {
      const float factor = capped ? 1.0f : exp_f32(job.largest[result + b] - largest);
      numerator = numerator + job.numerators[(result + b) * size + i] * factor;
      denominator = denominator + job.denominators[result + b] * factor;
    }
    const float value = __fdiv_rn(numerator, denominator);
    o[i] = ranges == nullptr ? value : value * ranges[i];
  }
}

/// Blocks of positions that a row of the step can see a part of, at most.
int most_blocks(const StepRows& rows, int window) {
  const int all = ceil_div(rows.longest, kPagePositions);
  return window > 0 ? std::min(all, ceil_div(window, kPagePositions) + 1) : all;
}

}  // namespace

void CudaBackend::attention(const Quantised& q, std::span<const SequenceRows> sequences, const KvLayer& kv,
                            const AttentionShape& shape, MatrixView<float> o) {
  AttentionJob job{};
  job.rows = rows_of(sequences);
  job.q = code_rows(q);
  job.kv = kv_pages(kv);
  job.heads = shape.heads;
  job.heads_per_kv = shape.heads / kv.kv_heads;
  job.multiplier = shape.multiplier;
  job.cap = make_soft_cap(shape.cap);
  job.window = shape.window;
  job.temperature = shape.temperature;
  job.blocks = most_blocks(job.rows, shape.window);
  job.o = o.data;
  job.o_stride = o.stride;
  const cudaStream_t queue = stream();
  const std::size_t results = static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(job.blocks);
  const int at_once = attention_rows(shape.heads, kv.head_size, job.blocks, job.rows.count);
  attended_.at_least(attention_bytes(shape.heads, kv.head_size, job.blocks, job.rows.count), queue);
  job.numerators = attended_.as<float>();
  job.denominators =
      job.numerators + results * static_cast<std::size_t>(at_once) * static_cast<std::size_t>(kv.head_size);
  job.largest = job.denominators + results * static_cast<std::size_t>(at_once);
  const std::size_t shared = sizeof(int) * kWarps * static_cast<std::size_t>(kv.head_size + kPagePositions);
  for (job.first_entry = 0; job.first_entry < job.rows.count; job.first_entry += at_once) {
    const auto entries = static_cast<unsigned>(std::min(at_once, job.rows.count - job.first_entry));
    launch(kv.type == KvType::int8 ? attend_blocks<1> : attend_blocks<2>,
           dim3(static_cast<unsigned>(job.blocks), static_cast<unsigned>(kv.kv_heads), entries),
           kWarps * kWarp, shared, queue, job);
    launch(combine_blocks, dim3(static_cast<unsigned>(shape.heads), entries),
           static_cast<unsigned>(std::clamp(round_up(kv.head_size, kWarp), kWarp, 256)), 0, queue, job);
  }
}

}  // namespace grokd::kernels::cuda

#pragma once
// The steps of docs/numerics.md, sections 6 and 7, over one row of logits by one block.

#include "kernels/cuda/block.h"
#include "kernels/cuda/sample_job.h"

namespace grokd::kernels::cuda {

using U64 = unsigned long long;

inline constexpr int kRadixBits = 8, kRadixBuckets = 1 << kRadixBits;

/// Shared memory of a row.
struct SampleRoom {
  SharedArray<U64> reduce;   // [kReduceRoom]
  SharedArray<U64> buckets;  // [kRadixBuckets]
  SharedArray<U64> found;    // [2]
};
inline constexpr std::size_t kSampleShared = sizeof(U64) * (kReduceRoom + kRadixBuckets + 2);

/// Ordered like the floats, -0 like +0.
__device__ inline unsigned ordered(float x) {
  const unsigned bits = x == 0.0f ? 0u : __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered(unsigned key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}
__device__ inline U64 ordered(double x) {
  const U64 bits = x == 0.0 ? 0ull : static_cast<U64>(__double_as_longlong(x));
  return (bits >> 63) != 0 ? ~bits : bits | 1ull << 63;
}

/// Softmax weight of a difference to the largest, in units of 2^-40. A NaN weighs nothing.
__device__ inline U64 weight_of(float difference) {
  const double scaled = rint(static_cast<double>(exp_f32(difference)) * 0x1p40);
  return scaled > 0 ? static_cast<U64>(scaled) : 0ull;
}

/// The key at which the weights of a row, added up from its smallest (or its largest) key, reach `target`.
/// each(v) gives {key, weight}; weight 0 where v does not count.
struct Weighed {
  unsigned key;
  U64 weight;
};
template <class Each>
__device__ unsigned key_at(const Each& each, int vocab, U64 target, bool from_largest,
                           const SampleRoom& room) {
  unsigned prefix = 0;
  for (int shift = 32 - kRadixBits; shift >= 0; shift -= kRadixBits) {
    __syncthreads();
    for (int b = thread(); b < kRadixBuckets; b += threads()) room.buckets[b] = 0ull;
    __syncthreads();
    const U64 above = static_cast<U64>(prefix) >> (shift + kRadixBits);
    for (int v = thread(); v < vocab; v += threads()) {
      const Weighed item = each(v);
      if (item.weight == 0 || static_cast<U64>(item.key) >> (shift + kRadixBits) != above) continue;
      add_shared(room.buckets, static_cast<int>(item.key >> shift & (kRadixBuckets - 1)), item.weight);
    }
    __syncthreads();
    if (thread() == 0) {
      const int step = from_largest ? -1 : 1, last = from_largest ? 0 : kRadixBuckets - 1;
      int b = from_largest ? kRadixBuckets - 1 : 0;
      for (; b != last && room.buckets[b] < target; b += step) target -= room.buckets[b];
      room.found[0] = static_cast<U64>(b);
      room.found[1] = target;
    }
    __syncthreads();
    prefix |= static_cast<unsigned>(room.found[0]) << shift;
    target = room.found[1];
  }
  return prefix;
}

/// Entries of a list may name a token several times: the first of them applies all, in their order.
template <class Entry, class Apply>
__device__ void for_each_token(const Entry* list, int count, const Apply& apply) {
  for (int i = thread(); i < count; i += threads()) {
    bool first = true;
    for (int j = 0; j < i && first; ++j) first = list[j].id != list[i].id;
    if (!first) continue;
    for (int j = i; j < count; ++j) {
      if (list[j].id == list[i].id) apply(list[j]);
    }
  }
}

__device__ inline void apply_penalty(const SampleSettings& s, const TokenCount& count, float* y) {
  float value = *y;
  if (count.in_prompt + count.in_answer > 0)
    value = value > 0 ? __fdiv_rn(value, s.repetition) : value * s.repetition;
  if (count.in_answer > 0) {
    const float penalty = static_cast<float>(count.in_answer) * s.frequency;
    value = value - penalty;
    value = value - s.presence;
  }
  *y = value;
}

/// Word `id` % 4 of Philox 4x32-10.
__device__ inline unsigned philox_word(const SampleSettings& s, unsigned id) {
  unsigned c0 = id / 4, c1 = s.draw, c2 = s.choice, c3 = 0;
  unsigned k0 = static_cast<unsigned>(s.seed), k1 = static_cast<unsigned>(s.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const unsigned word = id % 4;
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}

__device__ inline double gumbel(const SampleSettings& s, int id) {
  const double u = (static_cast<double>(philox_word(s, static_cast<unsigned>(id))) + 0.5) * 0x1p-32;
  return -log_f64(-log_f64(u));
}

}  // namespace grokd::kernels::cuda

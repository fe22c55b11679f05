#include "tests/bench/limits.h"

#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace grokd::bench {
namespace {

std::atomic<long long> g_sink;  // keeps the reads from being optimised away

__attribute__((target("avx2"))) long long read_run(const std::byte* p, std::size_t bytes) {
  __m256i sum[4] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    for (int v = 0; v < 4; ++v) {
      sum[v] = _mm256_add_epi64(sum[v], _mm256_load_si256(reinterpret_cast<const __m256i*>(p + i + 32 * v)));
    }
  }
  const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
  return _mm256_extract_epi64(all, 0) + _mm256_extract_epi64(all, 1) + _mm256_extract_epi64(all, 2) +
         _mm256_extract_epi64(all, 3);
}

template <class Body>
double seconds_of(int threads, const Body& body) {
  const double start = seconds_now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&body, i] { body(i); });
  body(0);
  for (std::thread& thread : others) thread.join();
  return seconds_now() - start;
}

constexpr long long kRounds = 20'000'000;

__attribute__((target("avx512f,avx512vnni"))) void multiply_registers() {
  long long rounds = kRounds;
  asm volatile(
      "1:\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm0\n vpdpbusd %%zmm30, %%zmm31, %%zmm1\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm2\n vpdpbusd %%zmm30, %%zmm31, %%zmm3\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm4\n vpdpbusd %%zmm30, %%zmm31, %%zmm5\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm6\n vpdpbusd %%zmm30, %%zmm31, %%zmm7\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm8\n vpdpbusd %%zmm30, %%zmm31, %%zmm9\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm10\n vpdpbusd %%zmm30, %%zmm31, %%zmm11\n"
      "dec %0\n jnz 1b\n"
      : "+r"(rounds)
      :
      : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",
        "cc");
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double read_bandwidth(std::span<const Block> blocks, int threads) {
  std::size_t bytes = 0;
  for (const Block& block : blocks) bytes += block.bytes;
  const double seconds = seconds_of(threads, [&](int thread) {
    for (const Block& block : blocks) {
      const std::size_t share = block.bytes / static_cast<std::size_t>(threads) / 64 * 64;
      g_sink += read_run(block.data + share * static_cast<std::size_t>(thread), share);
    }
  });
  return static_cast<double>(bytes) / seconds * 1e-9;
}

double vnni_peak(int threads) {
  if (!__builtin_cpu_supports("avx512vnni")) return 0;
  const double seconds = seconds_of(threads, [](int) { multiply_registers(); });
  return 12.0 * 64 * static_cast<double>(kRounds) * threads / seconds * 1e-9;
}

}  // namespace grokd::bench

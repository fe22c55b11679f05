#pragma once
// What the machine can do at most: read memory, multiply bytes.

#include <cstddef>
#include <span>

namespace grokd::bench {

double seconds_now();

struct Block {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// GB/s of `threads` threads that only read the blocks, each thread a share of every block.
double read_bandwidth(std::span<const Block> blocks, int threads);

/// GMAC/s of `threads` threads that only multiply (vpdpbusd on registers); 0 without AVX-512 VNNI.
double vnni_peak(int threads);

}  // namespace grokd::bench

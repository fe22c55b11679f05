#pragma once
// SipHash-2-4 with 128 bits: a hash that nobody without the key can find collisions of.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace grokd {

using HashKey = std::array<std::uint64_t, 2>;

struct Digest {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Digest&) const = default;
};

HashKey random_hash_key();

/// Of the bytes of `first` and `second`, one after the other; with a second part the length of the first must
/// be a multiple of 8.
Digest sip_hash(const HashKey& key, std::span<const std::byte> first, std::span<const std::byte> second = {});

}  // namespace grokd

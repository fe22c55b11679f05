#include "engine/sip_hash.h"

#include <bit>
#include <cstring>
#include <random>

namespace grokd {
namespace {

/// The four words of the algorithm (Aumasson and Bernstein, 2012).
class SipState {
 public:
  explicit SipState(const HashKey& key)
      : v0_(key[0] ^ 0x736f6d6570736575),
        v1_(key[1] ^ 0x646f72616e646f6d ^ 0xee),
        v2_(key[0] ^ 0x6c7967656e657261),
        v3_(key[1] ^ 0x7465646279746573) {}

  void absorb(std::uint64_t word) {
    v3_ ^= word;
    rounds(2);
    v0_ ^= word;
  }
  Digest finish() {
    Digest digest;
    v2_ ^= 0xee;
    rounds(4);
    digest.low = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xdd;
    rounds(4);
    digest.high = v0_ ^ v1_ ^ v2_ ^ v3_;
    return digest;
  }

 private:
  void rounds(int count) {
    for (; count > 0; --count) {
      v0_ += v1_, v1_ = std::rotl(v1_, 13) ^ v0_, v0_ = std::rotl(v0_, 32);
      v2_ += v3_, v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ += v3_, v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ += v1_, v1_ = std::rotl(v1_, 17) ^ v2_, v2_ = std::rotl(v2_, 32);
    }
  }
  std::uint64_t v0_, v1_, v2_, v3_;
};

std::uint64_t word_at(const std::byte* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

/// The whole words; what is left is returned.
std::span<const std::byte> absorb_words(SipState& state, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) state.absorb(word_at(bytes.data(), 8));
  return bytes;
}

}  // namespace

HashKey random_hash_key() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  const std::uint64_t first = word();
  return {first, word()};
}

Digest sip_hash(const HashKey& key, std::span<const std::byte> first, std::span<const std::byte> second) {
  SipState state(key);
  const std::uint64_t size = first.size() + second.size();
  auto rest = absorb_words(state, first);
  if (!second.empty()) rest = absorb_words(state, second);
  const std::uint64_t tail = rest.empty() ? 0 : word_at(rest.data(), rest.size());
  state.absorb(size << 56 | tail);
  return state.finish();
}

}  // namespace grokd

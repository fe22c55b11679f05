#pragma once
// Whole pages of finished positions, found again by what stands before and in them.

#include <string_view>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/sip_hash.h"
#include "kernels/tensor.h"

namespace grokd {

using kernels::TokenId;

/// A chain of indexed pages from the start of a sequence. Chains of different salts never meet.
struct PrefixChain {
  int pages = 0;           // of the chain
  std::int32_t last = -1;  // its last page
  Digest digest;           // of the salt and all tokens so far
};

/// An index over pages of KvPages. A page is known by its parent page and its tokens, both compared on a hit;
/// the keyed hash only finds the candidates, so a forged collision costs time, never a wrong answer. A page
/// whose last holder left stays until room is needed; then the one unused for the longest time goes, children
/// before parents since holders release their last page first. Nothing is allocated after construction.
class PrefixCache {
 public:
  PrefixCache(KvPages& pages, const HashKey& key);

  PrefixChain start(std::string_view salt) const;
  /// The page that continues the chain with these tokens (one page full), or -1. It may be idle: hold it.
  std::int32_t find(const PrefixChain& chain, std::span<const TokenId> tokens) const;
  /// Continues the chain with a page that `find` gave.
  void follow(PrefixChain& chain, std::span<const TokenId> tokens, std::int32_t page) const;
  /// Indexes a held page with these tokens as the chain's next one and continues the chain. The caller holds
  /// all pages of the chain, and `find` gave nothing.
  void add(PrefixChain& chain, std::span<const TokenId> tokens, std::int32_t page);
  /// Pages that are free or can be made so.
  int available() const { return pages_.free() + pages_.idle(); }
  /// Gives up idle pages until `count` are free, count <= available().
  void make_free(int count);
  int size() const { return size_; }

 private:
  struct Entry {
    bool present = false;
    std::int32_t parent = -1;  // -1: first page of a sequence
    Digest digest;             // of the chain up to and with this page
    std::int32_t next_in_bucket = -1;
    int children = 0;
  };
  Digest digest_of(const PrefixChain& chain, std::span<const TokenId> tokens) const;
  std::int32_t& bucket(const Digest& digest) { return buckets_[digest.low & (buckets_.size() - 1)]; }
  std::span<TokenId> tokens_of(std::int32_t page);
  bool matches(std::int32_t page, const PrefixChain& chain, const Digest& digest,
               std::span<const TokenId> tokens) const;
  void evict(std::int32_t page);

  KvPages& pages_;
  const HashKey key_;
  std::vector<Entry> entries_;         // by page
  std::vector<TokenId> tokens_;        // [pages, kPagePositions]
  std::vector<std::int32_t> buckets_;  // first page of each; a power of two
  int size_ = 0;
};

}  // namespace grokd

#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace grokd {

using kernels::kPagePositions;

PrefixCache::PrefixCache(KvPages& pages, const HashKey& key)
    : pages_(pages),
      key_(key),
      entries_(static_cast<std::size_t>(pages.total())),
      tokens_(entries_.size() * kPagePositions),
      buckets_(std::bit_ceil(entries_.size() + 1), -1) {}

PrefixChain PrefixCache::start(std::string_view salt) const {
  return {0, -1, sip_hash(key_, std::as_bytes(std::span(salt)))};
}

Digest PrefixCache::digest_of(const PrefixChain& chain, std::span<const TokenId> tokens) const {
  return sip_hash(key_, std::as_bytes(std::span(&chain.digest, 1)), std::as_bytes(tokens));
}

std::span<TokenId> PrefixCache::tokens_of(std::int32_t page) {
  return std::span(tokens_).subspan(static_cast<std::size_t>(page) * kPagePositions, kPagePositions);
}

/// First pages have no parent to tell their salts apart: there the 128 bits of the keyed digest do.
bool PrefixCache::matches(std::int32_t page, const PrefixChain& chain, const Digest& digest,
                          std::span<const TokenId> tokens) const {
  const Entry& entry = entries_[static_cast<std::size_t>(page)];
  const TokenId* own = tokens_.data() + static_cast<std::size_t>(page) * kPagePositions;
  return entry.digest == digest && entry.parent == chain.last &&
         std::equal(tokens.begin(), tokens.end(), own, own + kPagePositions);
}

std::int32_t PrefixCache::find(const PrefixChain& chain, std::span<const TokenId> tokens) const {
  if (size_ == 0) return -1;
  const Digest digest = digest_of(chain, tokens);
  std::int32_t page = buckets_[digest.low & (buckets_.size() - 1)];
  while (page >= 0 && !matches(page, chain, digest, tokens)) {
    page = entries_[static_cast<std::size_t>(page)].next_in_bucket;
  }
  return page;
}

void PrefixCache::follow(PrefixChain& chain, std::span<const TokenId> tokens, std::int32_t page) const {
  chain.digest = digest_of(chain, tokens);
  chain.last = page;
  ++chain.pages;
}

void PrefixCache::add(PrefixChain& chain, std::span<const TokenId> tokens, std::int32_t page) {
  Entry& entry = entries_[static_cast<std::size_t>(page)];
  if (entry.present) throw std::logic_error("a KV page is indexed twice");
  const std::int32_t parent = chain.last;
  follow(chain, tokens, page);
  std::int32_t& first = bucket(chain.digest);
  entry = {true, parent, chain.digest, first, 0};
  first = page;
  std::copy(tokens.begin(), tokens.end(), tokens_of(page).begin());
  if (parent >= 0) ++entries_[static_cast<std::size_t>(parent)].children;
  pages_.keep(page);
  ++size_;
}

void PrefixCache::make_free(int count) {
  while (pages_.free() < count) {
    if (pages_.oldest_idle() < 0) throw std::logic_error("KV pages wanted that are all held");
    evict(pages_.oldest_idle());
  }
}

void PrefixCache::evict(std::int32_t page) {
  Entry& entry = entries_[static_cast<std::size_t>(page)];
  if (entry.children > 0) throw std::logic_error("a KV page is given up before its children");
  std::int32_t* link = &bucket(entry.digest);
  while (*link != page) link = &entries_[static_cast<std::size_t>(*link)].next_in_bucket;
  *link = entry.next_in_bucket;
  if (entry.parent >= 0) --entries_[static_cast<std::size_t>(entry.parent)].children;
  entry = {};
  pages_.forget(page);
  --size_;
}

}  // namespace grokd

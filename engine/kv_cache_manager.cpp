#include "engine/kv_cache_manager.h"

#include <algorithm>

namespace grokd {

using kernels::kPagePositions;

KvCacheManager::KvCacheManager(int pages, bool share_prefixes)
    : pages_(pages), prefixes_(pages_, random_hash_key()), share_prefixes_(share_prefixes) {}

std::span<const TokenId> KvCacheManager::next_page(const Sequence& sequence) {
  return sequence.tokens().subspan(static_cast<std::size_t>(sequence.chain.pages) * kPagePositions,
                                   kPagePositions);
}

/// The last known token is always fed, since its logits are wanted; a scored prompt needs all of its own.
bool KvCacheManager::may_reuse_next_page(const Sequence& sequence) const {
  const int known = static_cast<int>(sequence.tokens().size());
  return share_prefixes_ && !sequence.pending().request.score_prompt &&
         (sequence.chain.pages + 1) * kPagePositions < known;
}

bool KvCacheManager::reserve(Sequence& sequence) {
  sequence.chain = prefixes_.start(sequence.pending().request.cache_salt);
  find_prefix(sequence);
  const int more = KvPages::needed(sequence.positions()) - static_cast<int>(sequence.pages.size());
  if (more > available()) {
    release(sequence);
    return false;
  }
  prefixes_.make_free(more);
  pages_.take(more, sequence.pages);
  return true;
}

void KvCacheManager::find_prefix(Sequence& sequence) {
  while (may_reuse_next_page(sequence)) {
    const auto tokens = next_page(sequence);
    const std::int32_t page = prefixes_.find(sequence.chain, tokens);
    if (page < 0) break;
    const auto at = static_cast<std::size_t>(sequence.chain.pages);
    pages_.hold(page);
    if (at < sequence.pages.size()) {
      pages_.release(std::exchange(sequence.pages[at], page));
    } else {
      sequence.pages.push_back(page);
    }
    prefixes_.follow(sequence.chain, tokens, page);
  }
  sequence.start_from(sequence.chain.pages * kPagePositions);
}

bool KvCacheManager::computes_next_page(const Sequence& other, const Sequence& sequence) const {
  if (!may_reuse_next_page(sequence) || other.prompt_rows_left() == 0) return false;
  const auto shared = static_cast<std::size_t>(sequence.chain.pages + 1) * kPagePositions;
  const auto ours = sequence.tokens().first(shared), theirs = other.tokens();
  return theirs.size() >= shared && std::equal(ours.begin(), ours.end(), theirs.begin()) &&
         sequence.pending().request.cache_salt == other.pending().request.cache_salt;
}

void KvCacheManager::index(Sequence& sequence) {
  if (!share_prefixes_ || !sequence.is_sound()) return;
  while ((sequence.chain.pages + 1) * kPagePositions <= sequence.next_position()) {
    const auto tokens = next_page(sequence);
    std::int32_t& own = sequence.pages[static_cast<std::size_t>(sequence.chain.pages)];
    const std::int32_t known = prefixes_.find(sequence.chain, tokens);
    if (known < 0) {
      prefixes_.add(sequence.chain, tokens, own);
      continue;
    }
    pages_.hold(known);  // somebody was faster: the same bits, held once
    pages_.release(std::exchange(own, known));
    prefixes_.follow(sequence.chain, tokens, known);
  }
}

void KvCacheManager::release(Sequence& sequence) {
  pages_.release(sequence.pages);
  sequence.chain = {};
  sequence.start_from(0);
}

}  // namespace grokd

#pragma once
// The pages of sequences: reserved when they start, shared where they begin alike, given back when they end.

#include "engine/prefix_cache.h"
#include "engine/sequence.h"

namespace grokd {

class KvCacheManager {
 public:
  KvCacheManager(int pages, bool share_prefixes);

  /// Gives the sequence pages for all positions it can reach, those of a known prefix where there is one.
  /// False if there are too few: then it has none.
  bool reserve(Sequence& sequence);
  /// Exchanges pages of a sequence that has fed nothing for those of a prefix that became known since.
  void find_prefix(Sequence& sequence);
  /// True if the page that `sequence` would feed next is being computed by `other`, which began before it.
  bool computes_next_page(const Sequence& other, const Sequence& sequence) const;
  /// Makes the sequence's full pages known. Only those are that a finite row of logits has seen: a poisoned
  /// page is never shared.
  void index(Sequence& sequence);
  /// The sequence starts from nothing when it gets pages again.
  void release(Sequence& sequence);

  /// Pages that nobody holds.
  int available() const { return pages_.free() + pages_.idle(); }
  const KvPages& pages() const { return pages_; }

 private:
  bool may_reuse_next_page(const Sequence& sequence) const;
  static std::span<const TokenId> next_page(const Sequence& sequence);

  KvPages pages_;
  PrefixCache prefixes_;
  const bool share_prefixes_;
};

}  // namespace grokd

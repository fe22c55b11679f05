#pragma once
// The merges of a byte-pair encoding: which two neighbouring symbols become which one, and which of several
// merges comes first.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace grokd {

/// Number of a symbol: what the tokens of a vocabulary and their beginnings are called here.
using Symbol = std::int32_t;

struct Merge {
  Symbol left = -1, right = -1, result = -1;
  float score = 0;  // higher first; equal ones from left to right
};

/// Never changed after it is built; any thread.
class BpeMerges {
 public:
  explicit BpeMerges(std::span<const Merge> merges);
  /// Merges neighbours until no merge is left, the best one first each time.
  void apply(std::vector<Symbol>& symbols) const;
  /// Null if the two do not merge.
  const Merge* find(Symbol left, Symbol right) const;

 private:
  void apply_short(std::vector<Symbol>& symbols) const;
  void apply_long(std::vector<Symbol>& symbols) const;
  std::size_t slot(Symbol left, Symbol right) const;

  std::vector<Merge> table_;  // open addressing, at most half full
  std::size_t mask_ = 0;
};

}  // namespace grokd

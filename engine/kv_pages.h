#pragma once
// Who holds which page of the KV cache.

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace grokd {

/// A fixed number of pages of kernels::kPagePositions positions. A sequence takes all it can ever need when
/// it starts, so a running one never waits for a page and a step takes none. Pages are counted, not owned: a
/// page is free again when its last holder releases it.
class KvPages {
 public:
  explicit KvPages(int pages);

  /// Pages that hold this many positions.
  static int needed(int positions) {
    return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions;
  }
  int total() const { return static_cast<int>(holders_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int used() const { return total() - free(); }

  /// Fills `table` with `count` free pages, count <= free().
  void take(int count, std::vector<std::int32_t>& table);
  /// Gives back a sequence's pages and empties its table.
  void release(std::vector<std::int32_t>& table);

 private:
  std::vector<std::int32_t> free_;     // stack: the page used last is taken first
  std::vector<std::int32_t> holders_;  // sequences that read the page
};

}  // namespace grokd

#pragma once
// Who holds which page of the KV cache.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace grokd {

/// A fixed number of pages of kernels::kPagePositions positions. A sequence takes all it can ever need when
/// it starts, so a running one never waits for a page and a step takes none. Pages are counted, not owned:
/// when its last holder releases it a page is free again, or idle if its content is to be kept. Idle pages
/// stand in the order in which they were released. Nothing is allocated after construction but tables.
class KvPages {
 public:
  explicit KvPages(int pages);

  /// Pages that hold this many positions.
  static int needed(int positions) {
    return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions;
  }
  int total() const { return static_cast<int>(states_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int idle() const { return idle_; }
  int used() const { return total() - free() - idle(); }
  int holders(std::int32_t page) const { return state(page).holders; }

  /// Appends `count` free pages to `table`, count <= free().
  void take(int count, std::vector<std::int32_t>& table);
  /// One more holder of a page that is held or idle.
  void hold(std::int32_t page);
  void release(std::int32_t page);
  /// Gives back a sequence's pages, the last one first, and empties its table.
  void release(std::vector<std::int32_t>& table);

  /// A page that is held becomes idle, not free, when it is released.
  void keep(std::int32_t page);
  /// Undoes `keep`; an idle page becomes free.
  void forget(std::int32_t page);
  /// The page that is idle for the longest time; -1 if none is.
  std::int32_t oldest_idle() const { return oldest_; }

 private:
  struct State {
    std::int32_t holders = 0;
    bool kept = false;
    std::int32_t older = -1, newer = -1;  // neighbours among the idle
  };
  State& state(std::int32_t page) { return states_[static_cast<std::size_t>(page)]; }
  const State& state(std::int32_t page) const { return states_[static_cast<std::size_t>(page)]; }
  void make_idle(std::int32_t page);
  void leave_idle(std::int32_t page);

  std::vector<std::int32_t> free_;  // stack: the page used last is taken first
  std::vector<State> states_;
  std::int32_t oldest_ = -1, newest_ = -1;
  int idle_ = 0;
};

}  // namespace grokd

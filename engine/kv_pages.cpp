#include "engine/kv_pages.h"

#include <stdexcept>

namespace grokd {

KvPages::KvPages(int pages) : states_(static_cast<std::size_t>(pages)) {
  free_.reserve(states_.size());
  for (int page = pages - 1; page >= 0; --page) free_.push_back(page);
}

void KvPages::take(int count, std::vector<std::int32_t>& table) {
  if (count > free()) throw std::logic_error("KV pages taken that are not free");
  for (; count > 0; --count) {
    table.push_back(free_.back());
    free_.pop_back();
    ++state(table.back()).holders;
  }
}

void KvPages::hold(std::int32_t page) {
  if (state(page).holders == 0) leave_idle(page);
  ++state(page).holders;
}

void KvPages::release(std::int32_t page) {
  if (state(page).holders == 0) throw std::logic_error("a KV page was released twice");
  if (--state(page).holders > 0) return;
  if (state(page).kept) {
    make_idle(page);
  } else {
    free_.push_back(page);
  }
}

void KvPages::release(std::vector<std::int32_t>& table) {
  for (; !table.empty(); table.pop_back()) release(table.back());
}

void KvPages::keep(std::int32_t page) {
  if (state(page).holders == 0) throw std::logic_error("a KV page is kept that nobody holds");
  state(page).kept = true;
}

void KvPages::forget(std::int32_t page) {
  state(page).kept = false;
  if (state(page).holders > 0) return;
  leave_idle(page);
  free_.push_back(page);
}

void KvPages::make_idle(std::int32_t page) {
  State& own = state(page);
  own.older = newest_;
  own.newer = -1;
  (newest_ >= 0 ? state(newest_).newer : oldest_) = page;
  newest_ = page;
  ++idle_;
}

void KvPages::leave_idle(std::int32_t page) {
  State& own = state(page);
  if (own.older < 0 && oldest_ != page) throw std::logic_error("a free KV page was taken for an idle one");
  (own.older >= 0 ? state(own.older).newer : oldest_) = own.newer;
  (own.newer >= 0 ? state(own.newer).older : newest_) = own.older;
  own.older = own.newer = -1;
  --idle_;
}

}  // namespace grokd

#include "engine/kv_pages.h"

#include <stdexcept>

namespace grokd {

KvPages::KvPages(int pages) : holders_(static_cast<std::size_t>(pages), 0) {
  free_.reserve(holders_.size());
  for (int page = pages - 1; page >= 0; --page) free_.push_back(page);
}

void KvPages::take(int count, std::vector<std::int32_t>& table) {
  if (count > free()) throw std::logic_error("KV pages taken that are not free");
  table.clear();
  for (; count > 0; --count) {
    table.push_back(free_.back());
    free_.pop_back();
    ++holders_[static_cast<std::size_t>(table.back())];
  }
}

void KvPages::release(std::vector<std::int32_t>& table) {
  for (const std::int32_t page : table) {
    auto& holders = holders_[static_cast<std::size_t>(page)];
    if (holders == 0) throw std::logic_error("a KV page was released twice");
    if (--holders == 0) free_.push_back(page);
  }
  table.clear();
}

}  // namespace grokd

#include "engine/kv_pages.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <stdexcept>

namespace grokd {
namespace {

TEST_CASE("a page holds 64 positions") {
  CHECK(KvPages::needed(1) == 1);
  CHECK(KvPages::needed(64) == 1);
  CHECK(KvPages::needed(65) == 2);
  CHECK(KvPages::needed(128) == 2);
}

TEST_CASE("more pages than are free cannot be taken") {
  KvPages pages(3);
  std::vector<std::int32_t> table, other;
  pages.take(2, table);
  CHECK_THROWS_AS(pages.take(2, other), std::logic_error);
  CHECK(other.empty());
  CHECK(pages.free() == 1);
}

TEST_CASE("a page released twice is noticed") {
  KvPages pages(3);
  std::vector<std::int32_t> table;
  pages.take(2, table);
  auto copy = table;
  pages.release(table);
  CHECK(table.empty());
  CHECK_THROWS_AS(pages.release(copy), std::logic_error);
}

TEST_CASE("random takes and releases never share a page and lose none") {
  constexpr int kPages = 37;
  KvPages pages(kPages);
  std::vector<std::vector<std::int32_t>> tables;
  std::mt19937 random(3);
  for (int round = 0; round < 10000; ++round) {
    const int count = 1 + static_cast<int>(random() % 9);
    if (random() % 2 == 0 && count <= pages.free()) {
      pages.take(count, tables.emplace_back());
      REQUIRE(static_cast<int>(tables.back().size()) == count);
    } else if (!tables.empty()) {
      std::swap(tables[random() % tables.size()], tables.back());
      pages.release(tables.back());
      tables.pop_back();
    }
    std::set<std::int32_t> held;
    std::size_t total = 0;
    for (const auto& table : tables) {
      total += table.size();
      held.insert(table.begin(), table.end());
    }
    REQUIRE(held.size() == total);
    REQUIRE(pages.used() == static_cast<int>(total));
    REQUIRE((held.empty() || (*held.begin() >= 0 && *held.rbegin() < kPages)));
  }
  for (auto& table : tables) pages.release(table);
  CHECK(pages.free() == kPages);
}

}  // namespace
}  // namespace grokd

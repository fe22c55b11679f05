#include "engine/prefix_cache.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

namespace grokd {
namespace {

using kernels::kPagePositions;
using Ids = std::vector<TokenId>;

constexpr HashKey kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

TEST_CASE("the hash gives the published values of SipHash-2-4-128") {
  const auto hex = [](const Digest& digest) {
    std::string text;
    for (const std::uint64_t word : {digest.low, digest.high}) {
      for (int i = 0; i < 8; ++i) {
        char two[3];
        std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned>(word >> (8 * i) & 255));
        text += two;
      }
    }
    return text;
  };
  std::vector<std::byte> input;
  CHECK(hex(sip_hash(kKey, input)) == "a3817f04ba25a8e66df67214c7550293");
  input.push_back(std::byte{0});
  CHECK(hex(sip_hash(kKey, input)) == "da87c1d86b99af44347659119b22fc45");
  for (int i = 1; i < 13; ++i) input.push_back(static_cast<std::byte>(i));
  const std::span<const std::byte> all(input);
  CHECK(sip_hash(kKey, all) == sip_hash(kKey, all.first(8), all.subspan(8)));
}

/// What a scheduler does with the cache: finds pages, takes the rest, indexes full ones.
struct Holder {
  std::string salt;
  Ids tokens;  // whole pages
  std::vector<std::int32_t> table;
  PrefixChain chain;
};

struct Rig {
  explicit Rig(int count) : pages(count), cache(pages, kKey) {}

  std::span<const TokenId> page_of(const Holder& holder, int index) const {
    return std::span(holder.tokens).subspan(static_cast<std::size_t>(index) * kPagePositions, kPagePositions);
  }
  /// Holds what is found; the number of pages found. False in `fits` if the rest does not fit.
  int start(Holder& holder, bool& fits) {
    const int wanted = static_cast<int>(holder.tokens.size()) / kPagePositions;
    holder.chain = cache.start(holder.salt);
    while (holder.chain.pages < wanted) {
      const auto page = cache.find(holder.chain, page_of(holder, holder.chain.pages));
      if (page < 0) break;
      pages.hold(page);
      holder.table.push_back(page);
      cache.follow(holder.chain, page_of(holder, holder.chain.pages), page);
    }
    const int found = holder.chain.pages;
    fits = cache.available() >= wanted - found;
    if (!fits) {
      pages.release(holder.table);
      return found;
    }
    cache.make_free(wanted - found);
    pages.take(wanted - found, holder.table);
    return found;
  }
  void index_all(Holder& holder) {
    while (holder.chain.pages < static_cast<int>(holder.table.size())) {
      const int next = holder.chain.pages;
      if (cache.find(holder.chain, page_of(holder, next)) >= 0) return;  // somebody was faster
      cache.add(holder.chain, page_of(holder, next), holder.table[static_cast<std::size_t>(next)]);
    }
  }
  int found_of(const std::string& salt, const Ids& tokens) {
    Holder holder{salt, tokens, {}, {}};
    bool fits = false;
    const int found = start(holder, fits);
    if (fits) pages.release(holder.table);
    return found;
  }
  void run(const std::string& salt, const Ids& tokens) {
    Holder holder{salt, tokens, {}, {}};
    bool fits = false;
    start(holder, fits);
    REQUIRE(fits);
    index_all(holder);
    pages.release(holder.table);
  }

  KvPages pages;
  PrefixCache cache;
};

Ids pages_of(std::initializer_list<TokenId> values) {
  Ids tokens;
  for (const TokenId value : values) tokens.insert(tokens.end(), kPagePositions, value);
  return tokens;
}

TEST_CASE("what was indexed is found again as far as it is the same from the start") {
  Rig rig(10);
  rig.run("", pages_of({1, 2, 3}));
  CHECK(rig.found_of("", pages_of({1, 2, 3, 4})) == 3);
  CHECK(rig.found_of("", pages_of({1, 2, 5})) == 2);
  CHECK(rig.found_of("", pages_of({2, 3})) == 0);
  auto one_off = pages_of({1, 2});
  one_off[70] = 9;
  CHECK(rig.found_of("", one_off) == 1);
}

TEST_CASE("another salt finds nothing") {
  Rig rig(10);
  rig.run("a", pages_of({1, 2}));
  CHECK(rig.found_of("", pages_of({1, 2})) == 0);
  CHECK(rig.found_of("b", pages_of({1, 2})) == 0);
  CHECK(rig.found_of("a", pages_of({1, 2})) == 2);
}

TEST_CASE("the pages unused for the longest time go first, the end of a prefix before its start") {
  Rig rig(5);
  rig.run("", pages_of({1, 2, 3}));
  rig.run("", pages_of({7, 8}));
  rig.run("", pages_of({1, 2}));  // used again: younger than 7, 8 and than their own third page
  rig.run("", pages_of({9}));
  CHECK(rig.found_of("", pages_of({1, 2, 3})) == 2);
  rig.run("", pages_of({10}));
  CHECK(rig.found_of("", pages_of({7, 8})) == 1);
  CHECK(rig.pages.used() == 0);
  CHECK(rig.pages.free() + rig.pages.idle() == 5);
}

TEST_CASE("held pages are never given up") {
  Rig rig(4);
  Holder holder{"", pages_of({1, 2}), {}, {}};
  bool fits = false;
  rig.start(holder, fits);
  rig.index_all(holder);
  rig.run("", pages_of({3, 4}));
  Holder large{"", pages_of({5, 6, 7}), {}, {}};
  rig.start(large, fits);
  CHECK_FALSE(fits);
  CHECK_THROWS_AS(rig.cache.make_free(3), std::logic_error);
  CHECK(rig.found_of("", pages_of({1, 2})) == 2);
}

TEST_CASE("over random work a page found always holds the tokens it was asked for, and none is lost") {
  constexpr int kPages = 24;
  Rig rig(kPages);
  std::mt19937 random(11);
  std::vector<Holder> holders;
  std::map<std::int32_t, std::pair<std::string, Ids>> written;  // page -> salt and all tokens up to its end
  int hits = 0, evictions = 0;
  for (int round = 0; round < 20000; ++round) {
    if (random() % 2 == 0) {
      Holder holder;
      holder.salt = std::string(random() % 3, 's');
      const int count = 1 + static_cast<int>(random() % 5);
      for (int i = 0; i < count; ++i) {
        holder.tokens.insert(holder.tokens.end(), kPagePositions, static_cast<TokenId>(random() % 3));
      }
      const int before = rig.cache.size();
      bool fits = false;
      const int found = rig.start(holder, fits);
      if (!fits) continue;
      hits += found;
      evictions += rig.cache.size() < before;
      for (int i = 0; i < count; ++i) {
        const auto page = holder.table[static_cast<std::size_t>(i)];
        const Ids upto(holder.tokens.begin(), holder.tokens.begin() + (i + 1) * kPagePositions);
        if (i < found) REQUIRE(written[page] == std::pair(holder.salt, upto));
        if (i >= found) {
          REQUIRE(rig.pages.holders(page) == 1);  // what is written is nobody else's
          written[page] = {holder.salt, upto};
        }
      }
      if (random() % 4 != 0) rig.index_all(holder);
      holders.push_back(std::move(holder));
    } else if (!holders.empty()) {
      std::swap(holders[random() % holders.size()], holders.back());
      rig.pages.release(holders.back().table);
      holders.pop_back();
    }
    std::map<std::int32_t, int> held;
    for (const auto& holder : holders) {
      for (const auto page : holder.table) ++held[page];
    }
    REQUIRE(rig.pages.used() == static_cast<int>(held.size()));
    for (const auto& [page, count] : held) REQUIRE(rig.pages.holders(page) == count);
    REQUIRE(rig.cache.size() >= rig.pages.idle());
  }
  for (auto& holder : holders) rig.pages.release(holder.table);
  CHECK(rig.pages.free() + rig.pages.idle() == kPages);
  rig.cache.make_free(kPages);
  CHECK(rig.cache.size() == 0);
  CHECK(hits > 1000);
  CHECK(evictions > 1000);
}

}  // namespace
}  // namespace grokd

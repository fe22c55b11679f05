#include "engine/grammar/char_set.h"

#include <random>

#include <doctest/doctest.h>

using namespace grokd::grammar;

namespace {

bool covers(const std::vector<std::vector<ByteRange>>& sequences, const std::string& bytes) {
  int hits = 0;
  for (const auto& sequence : sequences) {
    bool fits = sequence.size() == bytes.size();
    for (std::size_t i = 0; fits && i < bytes.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes[i]);
      fits = sequence[i].first <= byte && byte <= sequence[i].last;
    }
    hits += fits;
  }
  CHECK(hits <= 1);
  return hits == 1;
}

}  // namespace

TEST_CASE("the byte sequences of a set spell its characters and no others") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const char32_t limit = round % 2 == 0 ? 0x10FFFF : 0x900;
    std::uniform_int_distribution<char32_t> any(0, limit);
    CharSet set;
    for (int i = 0; i < 4; ++i) {
      const char32_t a = any(random), b = any(random);
      set.push_back({std::min(a, b), std::min<char32_t>(std::max(a, b), std::min(a, b) + limit / 8)});
    }
    set = normalized(std::move(set));
    const auto sequences = utf8_sequences(set);
    for (char32_t c = 0; c <= limit; c += limit == 0x900 ? 1 : 97) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      bool inside = false;
      for (CharRange r : set) inside = inside || (r.first <= c && c <= r.last);
      std::string bytes;
      append_utf8(bytes, c);
      if (covers(sequences, bytes) != inside) FAIL("character ", static_cast<unsigned>(c));
    }
  }
}

TEST_CASE("a complement has everything else but surrogates") {
  CHECK(complement({}) == CharSet{{0, 0xD7FF}, {0xE000, 0x10FFFF}});
  CHECK(complement({{0, 0x10FFFF}}).empty());
  CHECK(complement({{U'b', U'c'}}) == CharSet{{0, U'a'}, {U'd', 0xD7FF}, {0xE000, 0x10FFFF}});
}

TEST_CASE("decoding refuses what is not UTF-8") {
  CHECK(decode_utf8("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80") == U"a\u00e9\u65e5\U0001F600");
  for (const char* bad :
       {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8"}) {
    CHECK_FALSE(decode_utf8(bad).has_value());
  }
}

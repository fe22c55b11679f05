#pragma once
// Sets of characters (Unicode scalar values) and their spelling as UTF-8 bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace grokd::grammar {

struct CharRange {
  char32_t first = 0, last = 0;  // both included
  bool operator==(const CharRange&) const = default;
};
/// As `normalized` leaves it: sorted, disjoint, without surrogates.
using CharSet = std::vector<CharRange>;

CharSet normalized(CharSet set);
/// All characters that are not in the (normalized) set.
CharSet complement(const CharSet& set);

struct ByteRange {
  std::uint8_t first = 0, last = 0;  // both included
};
/// The set as UTF-8: a character is in it if its bytes lie in the ranges of exactly one of the sequences.
std::vector<std::vector<ByteRange>> utf8_sequences(const CharSet& set);

void append_utf8(std::string& text, char32_t c);
/// Nothing if the text is not valid UTF-8.
std::optional<std::u32string> decode_utf8(std::string_view text);

/// Reads UTF-8 byte by byte. Overlong forms, surrogates and values past U+10FFFF are invalid.
struct Utf8State {
  std::uint8_t missing = 0;                          // continuation bytes still to come
  std::uint8_t next_first = 0x80, next_last = 0xBF;  // range of the next one
  bool valid = true;

  bool at_boundary() const { return valid && missing == 0; }
  Utf8State after(std::uint8_t byte) const;
};

}  // namespace grokd::grammar

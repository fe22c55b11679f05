#pragma once
// Characters of a text that may be broken UTF-8.

#include <cstddef>
#include <string_view>

namespace grokd {

inline constexpr char32_t kBrokenChar = 0xFFFD;

struct Utf8Char {
  char32_t code = kBrokenChar;
  std::size_t bytes = 1;
};

/// The first character of a text that is not empty; one byte that begins none is kBrokenChar.
Utf8Char next_char(std::string_view text);

/// 1..4 bytes.
std::size_t encode_char(char32_t c, char* to);

}  // namespace grokd

#include "engine/utf8_chars.h"

namespace grokd {
namespace {

bool goes_on(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The value of `count` bytes, or kBrokenChar if they are no character of that length.
Utf8Char read(std::string_view text, std::size_t count, char32_t first_bits, char32_t smallest) {
  if (text.size() < count) return {};
  char32_t code = first_bits;
  for (std::size_t i = 1; i < count; ++i) {
    if (!goes_on(text[i])) return {};
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < smallest || code > 0x10FFFF || surrogate) return {};
  return {code, count};
}

}  // namespace

Utf8Char next_char(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  if (first >= 0xC0 && first < 0xE0) return read(text, 2, first & 0x1Fu, 0x80);
  if (first >= 0xE0 && first < 0xF0) return read(text, 3, first & 0x0Fu, 0x800);
  if (first >= 0xF0 && first < 0xF8) return read(text, 4, first & 0x07u, 0x10000);
  return {};
}

std::size_t encode_char(char32_t c, char* to) {
  if (c < 0x80) return to[0] = static_cast<char>(c), 1;
  std::size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (std::size_t i = bytes - 1; i > 0; --i, c >>= 6) to[i] = static_cast<char>(0x80 | (c & 0x3F));
  constexpr unsigned char kFirst[] = {0, 0, 0xC0, 0xE0, 0xF0};
  to[0] = static_cast<char>(kFirst[bytes] | c);
  return bytes;
}

}  // namespace grokd

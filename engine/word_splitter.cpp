#include "engine/word_splitter.h"

#include <array>

#include "engine/char_classes.h"
#include "engine/utf8_chars.h"

namespace grokd {
namespace {

struct Char {
  Utf8Char utf8;
  CharClass cls = CharClass::other;
};

Char char_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    const bool letter = (first | 0x20) >= 'a' && (first | 0x20) <= 'z', number = first >= '0' && first <= '9';
    const bool space = first == ' ' || (first >= '\t' && first <= '\r');
    return {{first, 1},
            letter   ? CharClass::letter
            : number ? CharClass::number
            : space  ? CharClass::space
                     : CharClass::other};
  }
  const Utf8Char c = next_char(text.substr(at));
  return {c, char_class(c.code)};
}

/// The end of the run of characters of a class from `at` on, `most` of them at most.
std::size_t end_of_run(std::string_view text, std::size_t at, CharClass cls, int most = -1) {
  while (at < text.size() && most-- != 0) {
    const Char c = char_at(text, at);
    if (c.cls != cls) break;
    at += c.utf8.bytes;
  }
  return at;
}

bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }

/// 's and the like, in either case: their length, 0 if there is none. U+017F is an s to patterns that ignore
/// case.
std::size_t contraction(std::string_view text) {
  constexpr std::array<std::string_view, 7> kEnds = {"s", "t", "re", "ve", "m", "ll", "d"};
  if (text[0] != '\'') return 0;
  if (text.substr(1).starts_with("\xC5\xBF")) return 3;
  for (const std::string_view end : kEnds) {
    if (text.size() <= end.size()) continue;
    bool same = true;
    for (std::size_t i = 0; i < end.size(); ++i) same = same && (text[1 + i] | 0x20) == end[i];
    if (same) return 1 + end.size();
  }
  return 0;
}

/// Of a run of spaces the part that is a word of its own: up to its last line break, or without its last
/// character, which begins the next word.
std::size_t spaces(std::string_view text) {
  std::size_t at = 0, last = 0, after_newline = 0;
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != CharClass::space) break;
    last = at;
    at += c.utf8.bytes;
    if (is_newline(c.utf8.code)) after_newline = at;
  }
  if (after_newline > 0) return after_newline;
  return at == text.size() || last == 0 ? at : last;
}

std::size_t others(std::string_view text, std::size_t at) {
  at = end_of_run(text, at, CharClass::other);
  while (at < text.size() && is_newline(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

}  // namespace

std::size_t first_word(std::string_view text, const WordPattern& pattern) {
  if (const std::size_t bytes = contraction(text); bytes > 0) return bytes;
  const Char first = char_at(text, 0);
  if (first.cls == CharClass::letter) return end_of_run(text, 0, CharClass::letter);
  if (first.cls == CharClass::number) return end_of_run(text, 0, CharClass::number, pattern.digits);
  const std::size_t second = first.utf8.bytes;
  if (!is_newline(first.utf8.code)) {
    const std::size_t end = end_of_run(text, second, CharClass::letter);
    if (end > second) return end;
  }
  if (first.cls == CharClass::other) return others(text, 0);
  const bool space_before = first.utf8.code == ' ' && second < text.size();
  if (space_before && char_at(text, second).cls == CharClass::other) return others(text, second);
  return spaces(text);
}

}  // namespace grokd

#include "engine/grammar/pattern_reader.h"

#include <algorithm>

namespace grokd::grammar {
namespace {

struct NamedSet {
  char32_t letter;
  CharSet set;
};
const NamedSet* find_named_set(char32_t letter) {
  static const NamedSet kSets[] = {
      {U'd', {{U'0', U'9'}}},
      {U'w', {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}},
      {U's', {{U'\t', U'\r'}, {U' ', U' '}}},
  };
  const auto found =
      std::find_if(std::begin(kSets), std::end(kSets), [&](const NamedSet& s) { return s.letter == letter; });
  return found == std::end(kSets) ? nullptr : found;
}

struct NamedCharacter {
  char32_t letter, character;
};
constexpr NamedCharacter kCharacters[] = {{U'n', U'\n'}, {U'r', U'\r'}, {U't', U'\t'},
                                          {U'f', U'\f'}, {U'v', U'\v'}, {U'0', U'\0'}};

bool is_ascii_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }
bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

}  // namespace

PatternReader::PatternReader(std::string_view utf8) {
  auto text = decode_utf8(utf8);
  if (!text) throw GrammarError("not valid UTF-8");
  text_ = std::move(*text);
}

void PatternReader::fail(const std::string& message) const {
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
  const auto line = 1 + std::count(text_.begin(), end, U'\n');
  const auto line_start = std::find(std::make_reverse_iterator(end), text_.rend(), U'\n').base();
  throw GrammarError(message + " at line " + std::to_string(line) + ", column " +
                     std::to_string(end - line_start + 1));
}

char32_t PatternReader::next() {
  if (peek() == kEnd) fail("unexpected end");
  return text_[at_++];
}

bool PatternReader::take(char32_t c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

void PatternReader::expect(char32_t c) {
  std::string name;
  append_utf8(name, c);
  if (!take(c)) fail("expected '" + name + "'");
}

char32_t PatternReader::hex(int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t c = next();
    const bool letter = (c >= U'a' && c <= U'f') || (c >= U'A' && c <= U'F');
    if (!letter && !is_digit(c)) fail("expected a hexadecimal digit");
    value = value * 16 + (letter ? (c | 0x20) - U'a' + 10 : c - U'0');
  }
  if (normalized({{value, value}}).empty()) fail("not a Unicode character");
  return value;
}

char32_t PatternReader::escaped_character() {
  const char32_t c = next();
  for (const NamedCharacter& named : kCharacters) {
    if (named.letter == c) return named.character;
  }
  if (c == U'x') return hex(2);
  if (c == U'u') return hex(4);
  if (c == U'U') return hex(8);
  if (is_ascii_letter(c) || is_digit(c)) fail("unknown escape");
  return c;
}

CharSet PatternReader::escape() {
  if (const NamedSet* named = find_named_set(peek())) {
    next();
    return named->set;
  }
  if (const NamedSet* named = is_ascii_letter(peek()) ? find_named_set(peek() | 0x20) : nullptr) {
    next();
    return complement(named->set);
  }
  const char32_t c = escaped_character();
  return {{c, c}};
}

CharSet PatternReader::bracket_item() {
  const char32_t c = next();
  return c == U'\\' ? escape() : CharSet{{c, c}};
}

CharSet PatternReader::bracket() {
  const bool negated = take(U'^');
  CharSet set;
  do {
    CharSet item = bracket_item();
    if (peek() == U'-' && peek(1) != U']') {
      next();
      const CharSet last = bracket_item();
      const bool single = item.size() == 1 && last.size() == 1 && item[0].first == item[0].last &&
                          last[0].first == last[0].last;
      if (!single || item[0].first > last[0].first) fail("bad range");
      item[0].last = last[0].first;
    }
    set.insert(set.end(), item.begin(), item.end());
  } while (!take(U']'));
  set = normalized(std::move(set));
  return negated ? complement(set) : set;
}

int PatternReader::count() {
  if (!is_digit(peek())) fail("expected a number");
  int value = 0;
  while (is_digit(peek())) {
    value = value * 10 + static_cast<int>(next() - U'0');
    if (value > kMaxRepeat) fail("more than 10000 repetitions");
  }
  return value;
}

ExprId PatternReader::repeated(Grammar& grammar, ExprId body) {
  if (take(U'*')) return grammar.repeat(body, 0, kUnbounded);
  if (take(U'+')) return grammar.repeat(body, 1, kUnbounded);
  if (take(U'?')) return grammar.repeat(body, 0, 1);
  if (!take(U'{')) return body;
  const int min = count();
  int max = min;
  if (take(U',')) max = peek() == U'}' ? kUnbounded : count();
  if (max != kUnbounded && max < min) fail("the counts are out of order");
  expect(U'}');
  return grammar.repeat(body, min, max);
}

}  // namespace grokd::grammar

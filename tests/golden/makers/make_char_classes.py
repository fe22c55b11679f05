#!/usr/bin/python3
"""Letters, numbers and white space as the regular expressions of Hugging Face's `tokenizers` know them.

  make_char_classes.py OUT.cpp      writes engine/char_classes.cpp; needs tokenizers from PyPI"""
import sys
from tokenizers import Regex, pre_tokenizers

CHARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(cls):
    split = pre_tokenizers.Split(Regex("[^%s]" % cls), "removed")
    inside = set()
    for at in range(0, len(CHARS), 4096):
        for text, _ in split.pre_tokenize_str("".join(map(chr, CHARS[at:at + 4096]))):
            inside.update(map(ord, text))
    out = []
    for c in sorted(inside):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, cls):
    rows = ["{0x%X, 0x%X}" % tuple(r) for r in ranges(cls)]
    lines = "".join("    %s,\n" % ", ".join(rows[i:i + 6]) for i in range(0, len(rows), 6))
    return "constexpr CharRange %s[] = {\n%s};\n" % (name, lines)


text = """// Written by tests/golden/makers/make_char_classes.py.

#include "engine/char_classes.h"

#include <algorithm>
#include <span>

namespace grokd {
namespace {

struct CharRange {
  char32_t first, last;
};

%s
%s
%s
bool contains(std::span<const CharRange> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const CharRange& range) { return value < range.first; });
  return after != ranges.begin() && c <= (after - 1)->last;
}

}  // namespace

CharClass char_class(char32_t c) {
  if (contains(kLetters, c)) return CharClass::letter;
  if (contains(kNumbers, c)) return CharClass::number;
  return contains(kSpaces, c) ? CharClass::space : CharClass::other;
}

}  // namespace grokd
""" % (table("kLetters", r"\p{L}"), table("kNumbers", r"\p{N}"), table("kSpaces", r"\s"))
open(sys.argv[1], "w").write(text)

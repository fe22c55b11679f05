#include "engine/grammar/char_set.h"

#include <algorithm>
#include <array>

namespace grokd::grammar {
namespace {

constexpr char32_t kLastChar = 0x10FFFF;
constexpr CharRange kSurrogates = {0xD800, 0xDFFF};
constexpr std::array<char32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kLastChar};

void append_sequence(CharRange range, std::vector<std::vector<ByteRange>>& out) {
  std::string first, last;
  append_utf8(first, range.first);
  append_utf8(last, range.last);
  std::vector<ByteRange> sequence;
  for (std::size_t i = 0; i < first.size(); ++i) {
    sequence.push_back({static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i])});
  }
  out.push_back(std::move(sequence));
}

/// A range whose characters have equally many bytes: cut it until every byte ranges independently of the
/// others.
void split_range(CharRange range, int continuation_bytes, std::vector<std::vector<ByteRange>>& out) {
  for (int i = 1; i <= continuation_bytes; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;
    if ((range.first & ~low) == (range.last & ~low)) continue;
    if ((range.first & low) != 0) {
      split_range({range.first, range.first | low}, continuation_bytes, out);
      return split_range({(range.first | low) + 1, range.last}, continuation_bytes, out);
    }
    if ((range.last & low) != low) {
      split_range({range.first, (range.last & ~low) - 1}, continuation_bytes, out);
      return split_range({range.last & ~low, range.last}, continuation_bytes, out);
    }
  }
  append_sequence(range, out);
}

}  // namespace

CharSet normalized(CharSet set) {
  std::sort(set.begin(), set.end(), [](CharRange a, CharRange b) { return a.first < b.first; });
  CharSet merged;
  for (CharRange r : set) {
    if (!merged.empty() && r.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, r.last);
    } else {
      merged.push_back(r);
    }
  }
  CharSet out;
  for (CharRange r : merged) {
    const CharRange below = {r.first, std::min<char32_t>(r.last, kSurrogates.first - 1)};
    const CharRange above = {std::max<char32_t>(r.first, kSurrogates.last + 1), std::min(r.last, kLastChar)};
    if (below.first <= below.last) out.push_back(below);
    if (above.first <= above.last) out.push_back(above);
  }
  return out;
}

CharSet complement(const CharSet& set) {
  CharSet out;
  char32_t next = 0;
  for (CharRange r : set) {
    if (r.first > next) out.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kLastChar) out.push_back({next, kLastChar});
  return normalized(std::move(out));
}

std::vector<std::vector<ByteRange>> utf8_sequences(const CharSet& set) {
  std::vector<std::vector<ByteRange>> out;
  for (CharRange range : set) {
    for (int continuation = 0; continuation < 4 && range.first <= range.last; ++continuation) {
      const char32_t last = kLastOfLength[continuation];
      if (range.first > last) continue;
      split_range({range.first, std::min(range.last, last)}, continuation, out);
      range.first = last + 1;
    }
  }
  return out;
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c <= 0x7F) return put(c);
  const int continuation = c <= 0x7FF ? 1 : c <= 0xFFFF ? 2 : 3;
  constexpr std::array<char32_t, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
  put(kLead[continuation] | (c >> (6 * continuation)));
  for (int i = continuation - 1; i >= 0; --i) put(0x80 | ((c >> (6 * i)) & 0x3F));
}

Utf8State Utf8State::after(std::uint8_t byte) const {
  constexpr Utf8State kInvalid = {0, 0, 0, false};
  if (!valid) return kInvalid;
  if (missing > 0) {
    if (byte < next_first || byte > next_last) return kInvalid;
    return {static_cast<std::uint8_t>(missing - 1)};
  }
  if (byte <= 0x7F) return {};
  if (byte < 0xC2 || byte > 0xF4) return kInvalid;
  if (byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {3};
}

std::optional<std::u32string> decode_utf8(std::string_view text) {
  std::u32string out;
  Utf8State state;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    const bool starts = state.at_boundary();
    state = state.after(byte);
    if (!state.valid) return std::nullopt;
    if (starts) {
      out.push_back(state.missing == 0 ? byte : byte & (0x3Fu >> state.missing));
    } else {
      out.back() = (out.back() << 6) | (byte & 0x3Fu);
    }
  }
  if (!state.at_boundary()) return std::nullopt;
  return out;
}

}  // namespace grokd::grammar

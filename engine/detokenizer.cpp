#include "engine/detokenizer.h"

namespace grokd {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct ByteRange {
  unsigned low, high;
};

/// The second bytes that may follow: narrower after four first bytes, where the rest would be an overlong
/// form, a surrogate or beyond U+10FFFF.
ByteRange second_bytes(unsigned char first) {
  switch (first) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

}  // namespace

int utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xC2) return 0;
  if (byte < 0xE0) return 2;
  if (byte < 0xF0) return 3;
  return byte < 0xF5 ? 4 : 0;
}

bool Detokenizer::joins(char byte) const {
  if (size_ == 0) return false;
  const auto range = size_ == 1 ? second_bytes(static_cast<unsigned char>(held_[0])) : ByteRange{0x80, 0xBF};
  const auto value = static_cast<unsigned char>(byte);
  return value >= range.low && value <= range.high;
}

void Detokenizer::push(char byte, std::string& out) {
  if (!joins(byte)) {
    flush(out);
    length_ = utf8_length(byte);
    if (length_ == 0) {
      out += kReplacement;
      return;
    }
  }
  held_[size_++] = byte;
  if (size_ == length_) {
    out.append(held_, static_cast<std::size_t>(size_));
    size_ = 0;
  }
}

void Detokenizer::flush(std::string& out) {
  if (size_ > 0) out += kReplacement;
  size_ = 0;
}

}  // namespace grokd

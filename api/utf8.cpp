#include "api/utf8.h"

namespace grokd::api {
namespace {

/// What may follow a lead byte: how many bytes the character has and the range of the second.
struct LeadByte {
  std::size_t bytes;
  unsigned char second_low, second_high;
};

LeadByte lead_byte(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Part first_utf8_part(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, true, false};
  const LeadByte lead = lead_byte(byte(0));
  if (lead.bytes == 0) return {1, false, false};
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {i, false, true};
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  return {lead.bytes, true, false};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Part part = first_utf8_part(text);
    if (!part.valid) return false;
    text.remove_prefix(part.bytes);
  }
  return true;
}

std::string replace_broken_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Part part = first_utf8_part(text);
    out += part.valid ? text.substr(0, part.bytes) : kReplacement;
    text.remove_prefix(part.bytes);
  }
  return out;
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(first_utf8_part(text).bytes);
    ++count;
  }
  return count;
}

std::size_t TextOffsets::add(std::string_view bytes) {
  if (bytes.empty()) return characters_;
  std::string joined = open_;
  joined += bytes;
  std::string_view rest = joined;
  bool inside = false;  // the first new byte continues the open character
  if (!open_.empty()) {
    const Utf8Part part = first_utf8_part(rest);
    inside = part.bytes > open_.size();
    if (!part.cut_off) {
      rest.remove_prefix(part.bytes);
      open_.clear();
    } else {
      open_ = joined;
      return characters_ - 1;
    }
  }
  const std::size_t offset = inside ? characters_ - 1 : characters_;
  while (!rest.empty()) {
    const Utf8Part part = first_utf8_part(rest);
    ++characters_;
    if (part.cut_off) open_ = rest.substr(0, part.bytes);
    rest.remove_prefix(part.bytes);
  }
  return offset;
}

}  // namespace grokd::api

#include "api/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "api/utf8.h"

namespace grokd::api {
namespace {

/// Bytes that go into a string as they are: printable ASCII but the quote and the backslash.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7F; ++c) plain[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return plain;
}();

void append_escape(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    case 0x7F:
      out += '\x7F';
      break;
    default:
      out += {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
  }
}

template <class T>
void append_chars(std::string& out, T value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  out.append(buffer.data(), end);
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t begin = 0, i = 0;
  while (i < text.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (kPlain[c]) {
      ++i;
      continue;
    }
    out += text.substr(begin, i - begin);
    if (c < 0x80) {
      append_escape(out, c);
      ++i;
    } else {
      const Utf8Part part = first_utf8_part(text.substr(i));
      out += part.valid ? text.substr(i, part.bytes) : kReplacement;
      i += part.bytes;
    }
    begin = i;
  }
  out += text.substr(begin);
  out += '"';
}

void append_integer(std::string& out, std::int64_t value) { append_chars(out, value); }

void append_number(std::string& out, double value) {
  if (std::isfinite(value)) {
    append_chars(out, value);
  } else {
    out += "null";
  }
}

void append_logprob(std::string& out, float value) {
  constexpr float kLowest = -9999.0f;
  if (!(value >= kLowest)) value = kLowest;  // NaN too
  if (std::isinf(value)) value = 0;          // a log-probability is never above 0
  const std::size_t begin = out.size();
  append_chars(out, value);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void append_bool(std::string& out, bool value) { out += value ? "true" : "false"; }

void append_integers(std::string& out, std::span<const std::int32_t> values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append_integer(out, values[i]);
  }
  out += ']';
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_integer(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

}  // namespace grokd::api

#include "engine/detokenizer.h"

#include <doctest/doctest.h>

#include <random>

namespace grokd {
namespace {

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  Detokenizer detokenizer;
  for (const auto part : parts) detokenizer.push(part, text);
  detokenizer.flush(text);
  return text;
}

/// U+FFFD for each maximal broken part, written the slow way: the longest prefix of some valid character.
std::string replaced(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    std::size_t size = 0, good = 0;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const int length = utf8_length(bytes[0]);
    if (length > 0) size = 1;
    while (size > 0 && size < static_cast<std::size_t>(length) && size < bytes.size()) {
      unsigned low = 0x80, high = 0xBF;
      if (size == 1 && byte(0) == 0xE0) low = 0xA0;
      if (size == 1 && byte(0) == 0xED) high = 0x9F;
      if (size == 1 && byte(0) == 0xF0) low = 0x90;
      if (size == 1 && byte(0) == 0xF4) high = 0x8F;
      if (byte(size) < low || byte(size) > high) break;
      ++size;
    }
    if (length > 0 && size == static_cast<std::size_t>(length)) good = size;
    text += good > 0 ? std::string(bytes.substr(0, good)) : "\xEF\xBF\xBD";
    bytes.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return text;
}

TEST_CASE("a character made of several tokens comes out whole") {
  Detokenizer detokenizer;
  std::string text;
  for (const auto byte : {"\xF0", "\x9F", "\x98"}) detokenizer.push(std::string_view(byte), text);
  CHECK(text.empty());
  CHECK(detokenizer.pending() == 3);
  detokenizer.push(std::string_view("\x80!"), text);
  CHECK(text == "😀!");
  CHECK(detokenizer.pending() == 0);
}

TEST_CASE("bytes that can never become a character are replaced at once") {
  Detokenizer detokenizer;
  std::string text;
  detokenizer.push('\xFF', text);
  CHECK(text == "\uFFFD");
  detokenizer.push('\xC3', text);
  detokenizer.push('a', text);
  CHECK(text == "\uFFFD\uFFFDa");
}

TEST_CASE("each maximal broken part becomes one replacement character") {
  CHECK(joined({"\xF0\x9F"}) == "\uFFFD");
  CHECK(joined({"\xF0\x9F", "\xF0\x9F\x98\x80"}) == "\uFFFD😀");
  CHECK(joined({"\xED\xA0\x80"}) == "\uFFFD\uFFFD\uFFFD");
  CHECK(joined({"\xC0\xAF"}) == "\uFFFD\uFFFD");
  CHECK(joined({"\xF4\x90", "\x80\x80"}) == "\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(joined({"\xE2\x82", "\xE2\x82\xAC"}) == "\uFFFD€");
  CHECK(joined({std::string_view("\0", 1)}) == std::string(1, '\0'));
}

TEST_CASE("how bytes are cut into tokens does not change the text") {
  const unsigned char alphabet[] = {'a',  0x80, 0x90, 0x9F, 0xA0, 0xBF, 0xC2,
                                    0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF};
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (int i = 0; i < 7; ++i) bytes += static_cast<char>(alphabet[random() % std::size(alphabet)]);
    const std::size_t middle = random() % 8;
    const std::string_view view = bytes;
    CAPTURE(round);
    REQUIRE(joined({view.substr(0, middle), view.substr(middle)}) == replaced(bytes));
  }
}

}  // namespace
}  // namespace grokd

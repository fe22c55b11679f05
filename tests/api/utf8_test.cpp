#include "api/utf8.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace grokd::api;

TEST_CASE("each maximal broken part becomes one U+FFFD") {
  const std::string r(kReplacement);
  CHECK(replace_broken_utf8("caf\xC3\xA9 \xF0\x9F\x98\x80") == "caf\xC3\xA9 \xF0\x9F\x98\x80");
  CHECK(replace_broken_utf8("\xFF"
                            "a") == r + "a");
  CHECK(replace_broken_utf8("\xF0\x9F") == r);
  CHECK(replace_broken_utf8("\xF0\x9F"
                            "a\xF0\x9F\x98") == r + "a" + r);
  CHECK(replace_broken_utf8("\x80\x80") == r + r);
  CHECK(replace_broken_utf8("\xC0\x80") == r + r);          // overlong
  CHECK(replace_broken_utf8("\xE0\x80\x80") == r + r + r);  // overlong
  CHECK(replace_broken_utf8("\xED\xA0\x80") == r + r + r);  // a surrogate
  CHECK(replace_broken_utf8("\xF4\x90\x80\x80") == r + r + r + r);
  CHECK(replace_broken_utf8("\xF0\x9F\xF0\x9F\x98\x80") == r + "\xF0\x9F\x98\x80");
}

TEST_CASE("valid UTF-8 is told from broken at the edges of each length") {
  for (const char* text : {"", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(is_valid_utf8(text));
  }
  for (const char* text : {"\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    CHECK_FALSE(is_valid_utf8(text));
  }
}

TEST_CASE("code points are counted, a broken part as one") {
  CHECK(count_code_points("") == 0);
  CHECK(count_code_points("a\xC3\xA9\xF0\x9F\x98\x80") == 3);
  CHECK(count_code_points("\xF0\x9F!") == 2);
}

TEST_CASE("bytes inside one character share the offset of its first") {
  TextOffsets offsets;
  const std::vector<std::string> tokens = {"a", "\xF0", "\x9F", "\x98", "\x80", "b", "", "\xC3\xA9z", "c"};
  std::vector<std::size_t> got;
  for (const std::string& token : tokens) got.push_back(offsets.add(token));
  CHECK(got == std::vector<std::size_t>{0, 1, 1, 1, 1, 2, 3, 3, 5});
}

TEST_CASE("a broken character counts as one in the offsets behind it") {
  TextOffsets offsets;
  CHECK(offsets.add("\xF0\x9F") == 0);
  CHECK(offsets.add("x") == 1);
  CHECK(offsets.add("\xFF") == 2);
  CHECK(offsets.add("\x80") == 3);
  CHECK(offsets.add("\xE2\x82") == 4);
  CHECK(offsets.add("\xAC"
                    "e") == 4);
  CHECK(offsets.add("f") == 6);
}

TEST_CASE("offsets agree with the replaced text, however the bytes are cut into tokens") {
  const std::string bytes = "h\xC3\xA9\xF0\x9F\x98\x80\xFF\xE2\x82x\xC3\xA9\xE2\x82\xAC\x80 z\xF0\x9F";
  for (std::size_t cut = 1; cut < 8; ++cut) {
    TextOffsets offsets;
    for (std::size_t begin = 0; begin < bytes.size(); begin += cut) {
      const std::size_t before = count_code_points(bytes.substr(0, begin));
      const bool inside = count_code_points(bytes.substr(0, begin + 1)) == before;
      CHECK(offsets.add(std::string_view(bytes).substr(begin, cut)) == (inside ? before - 1 : before));
    }
  }
}

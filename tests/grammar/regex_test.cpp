#include <doctest/doctest.h>

#include "tests/grammar/acceptance.h"

using namespace grokd;
using namespace grokd::testing;

namespace {

bool matches(const char* regex, std::string_view text) {
  ByteCompiler compiler;
  return grokd::testing::matches(compiler->compile_regex(regex), text);
}

std::string error_of(const std::string& regex) {
  ByteCompiler compiler;
  try {
    compiler->compile_regex(regex);
  } catch (const GrammarError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a regular expression matches the whole text") {
  CHECK(matches("ab", "ab"));
  CHECK_FALSE(matches("ab", "a"));
  CHECK_FALSE(matches("ab", "abc"));
  CHECK(matches("^ab$", "ab"));
  CHECK(matches("", ""));
}

TEST_CASE("alternatives, groups and repetitions mean what they mean everywhere") {
  CHECK(matches("a|bc|", "bc"));
  CHECK(matches("a|bc|", ""));
  CHECK(matches("(ab)+", "abab"));
  CHECK_FALSE(matches("(?:ab)+", "aba"));
  CHECK(matches("ab*c?", "abbb"));
  CHECK(matches("a{2,3}", "aaa"));
  CHECK_FALSE(matches("a{2,3}", "a"));
  CHECK_FALSE(matches("a{2,3}", "aaaa"));
  CHECK(matches("a{2,}", "aaaaaa"));
  CHECK(matches("(a|b){3}", "aba"));
  CHECK(matches("(a?){3}b", "ab"));
  CHECK(matches("((a*)*)*", "aaa"));
}

TEST_CASE("sets are of characters, not of bytes") {
  CHECK(matches("[a-cx]", "b"));
  CHECK_FALSE(matches("[^a-c]", "b"));
  CHECK(matches("[^a-c]", "\xC3\xA9"));
  CHECK(matches("[à-ü]", "é"));
  CHECK_FALSE(matches("[à-ü]", "e"));
  CHECK(matches("[]a]", "]"));
  CHECK(matches("[a-]", "-"));
  CHECK(matches("[\\d_]+", "1_2"));
  CHECK(matches(".", "\xF0\x9F\x98\x80"));
  CHECK_FALSE(matches(".", "\n"));
  CHECK_FALSE(matches(".", "\x80"));
  CHECK_FALSE(matches(".", "\xC0\x80"));
  CHECK_FALSE(matches(".", "\xED\xA0\x80"));
}

TEST_CASE("escapes name characters and sets") {
  CHECK(matches("\\d{3}-\\d{4}", "555-0123"));
  CHECK(matches("\\w+\\s\\W", "a_9 !"));
  CHECK(matches("\\x41\\u00e9\\.\\\\\\n", "A\xC3\xA9.\\\n"));
  CHECK_FALSE(matches("\\.", "x"));
  CHECK(matches("\\D\\S", "xy"));
}

TEST_CASE("a regular expression outside the subset is refused with its place") {
  CHECK(error_of("a\\b") == "unknown escape at line 1, column 4");
  CHECK(error_of("(?=a)") == "only plain and (?:...) groups are supported at line 1, column 3");
  CHECK(error_of("(a") == "expected ')' at line 1, column 3");
  CHECK(error_of("a)") == "unexpected ')' at line 1, column 2");
  CHECK(error_of("*a").starts_with("nothing to repeat"));
  CHECK(error_of("a*?").starts_with("nothing to repeat"));
  CHECK(error_of("[b-a]").starts_with("bad range"));
  CHECK(error_of("[a").starts_with("unexpected end"));
  CHECK(error_of("a{3,2}").starts_with("the counts are out of order"));
  CHECK(error_of("a{99999}").starts_with("more than 10000 repetitions"));
  CHECK(error_of("a^b").starts_with("anchors are implied"));
  CHECK(error_of("\\u{41}").starts_with("expected a hexadecimal digit"));
  CHECK(error_of("\\ud800").starts_with("not a Unicode character"));
  CHECK(error_of("\xFF") == "not valid UTF-8");
  CHECK(error_of(std::string(65537, 'a')) == "longer than 65536 bytes");
}

TEST_CASE("an expression whose automaton would be huge is an error, not a stall") {
  CHECK(error_of("(a|b)*a(a|b){40}") == "the grammar is too large");
  CHECK(error_of("((((a{9999}){9999}){9999}){9999})") == "");
  CHECK(error_of(std::string(20000, '.')) == "the grammar is too large");
}

TEST_CASE("large repetitions count exactly") {
  ByteCompiler compiler;
  const auto compiled = compiler->compile_regex("[a-zé]{1999,2001}");
  CHECK_FALSE(matches(compiled, std::string(1998, 'a')));
  CHECK(matches(compiled, std::string(1999, 'a')));
  CHECK(matches(compiled, std::string(2001, 'a')));
  CHECK(judge(compiled, std::string(2002, 'a')) == Verdict::refused);
}

TEST_CASE("groups nested 50 deep are read, 5000 deep refused") {
  const auto nested = [](int n) { return std::string(n, '(') + "a" + std::string(n, ')'); };
  CHECK(matches(nested(50).c_str(), "a"));
  CHECK(error_of(nested(5000)).starts_with("nested deeper than 64 levels"));
}

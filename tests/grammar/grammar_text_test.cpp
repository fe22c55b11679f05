#include <doctest/doctest.h>

#include "tests/grammar/acceptance.h"

using namespace grokd;
using namespace grokd::testing;

namespace {

bool matches(const char* grammar, std::string_view text) {
  ByteCompiler compiler;
  return grokd::testing::matches(compiler->compile_grammar(grammar), text);
}

std::string error_of(const std::string& grammar) {
  ByteCompiler compiler;
  try {
    compiler->compile_grammar(grammar);
  } catch (const GrammarError& e) {
    return e.what();
  }
  return "";
}

constexpr const char* kArithmetic = R"g(
# An expression.
root   ::= term (("+" | "-") term)*
term   ::= factor
           (("*" | "/") factor)*
factor ::= [0-9]+ | "(" root ")"
)g";

}  // namespace

TEST_CASE("a grammar may recurse") {
  CHECK(matches(kArithmetic, "1+2*(3-4)/55"));
  CHECK_FALSE(matches(kArithmetic, "1+"));
  CHECK_FALSE(matches(kArithmetic, "1+2)"));
  CHECK_FALSE(matches(kArithmetic, "(1"));
}

TEST_CASE("the grammar need not be regular") {
  const char* palindrome = R"(root ::= "a" root "a" | "b" root "b" | "c")";
  CHECK(matches(palindrome, "abbacabba"));
  CHECK_FALSE(matches(palindrome, "abbacabab"));
}

TEST_CASE("right recursion, empty rules and repeated empty rules work") {
  const char* grammar = R"(
    root ::= ws word list ws*
    word ::= [a-z]+
    list ::= "," ws word list | ""
    ws ::= " " ws |
  )";
  CHECK(matches(grammar, "a"));
  CHECK(matches(grammar, "  a, b,c   "));
  CHECK_FALSE(matches(grammar, "a,,b"));
}

TEST_CASE("literals and sets know escapes") {
  CHECK(matches(R"(root ::= "\"\\\n\x41\u00e9" [\]\-\d] . )", "\"\\\nA\xC3\xA9-\n"));
}

TEST_CASE("ambiguity does not matter") {
  const char* grammar = R"(root ::= ("a" | "a" "a" | x)* x ::= "a" root? | "b")";
  CHECK(matches(grammar, std::string(300, 'a')));
  const char* nested = R"(root ::= "x" root "p" | "x" root "q" | "x")";
  CHECK(matches(nested, std::string(200, 'x') + std::string(99, 'p') + std::string(100, 'q')));
}

TEST_CASE("a grammar that cannot be used is refused with the reason") {
  CHECK(error_of("") == "rule 'root' is not defined");
  CHECK(error_of("root ::= a") == "rule 'a' is not defined");
  CHECK(error_of("root ::= \"a\" root ::= \"b\"").starts_with("rule 'root' is defined twice"));
  CHECK(error_of("root = \"a\"").starts_with("expected a rule"));
  CHECK(error_of("root ::= \"a").starts_with("unexpected end"));
  CHECK(error_of("root ::= 'a'")
            .starts_with("expected a rule name, a literal, a set or a group at line 1, column 10"));
  CHECK(error_of("root ::= (\"a\"").starts_with("expected ')'"));
  CHECK(error_of("root ::= root \"a\" | \"a\"") == "'root' is left-recursive: it can start with itself");
  CHECK(
      error_of("root ::= \"b\" a\na ::= e b\nb ::= a \"x\" | \"y\"\ne ::= \"\"").find("is left-recursive") !=
      std::string::npos);
  CHECK(error_of("root ::= \"a\" root") == "no text that the vocabulary can spell matches");
}

TEST_CASE("a rule that nothing can match takes only its alternative away") {
  CHECK(matches(R"(root ::= "a" bad | "ab" bad ::= "b" bad)", "ab"));
  ByteCompiler compiler;
  const auto compiled = compiler->compile_grammar(R"(root ::= "a" bad | "xy" bad ::= "b" bad)");
  CHECK(judge(compiled, "a") == Verdict::refused);
}

TEST_CASE("grammar groups nested 50 deep are read, 5000 deep refused") {
  const auto nested = [](int n) { return "root ::= " + std::string(n, '(') + "\"a\"" + std::string(n, ')'); };
  CHECK(matches(nested(50).c_str(), "a"));
  CHECK(error_of(nested(5000)).starts_with("nested deeper than 64 levels"));
}

#include "engine/grammar/constraint.h"

#include <thread>

#include <doctest/doctest.h>

#include "tests/grammar/acceptance.h"

using namespace grokd;
using namespace grokd::testing;

TEST_CASE("the end is allowed exactly where the text may end, other control tokens never") {
  ByteCompiler compiler;
  const auto constraint = make_constraint(compiler->compile_regex("a|abc"));
  CHECK_FALSE(bit(constraint->allowed(), kEnd));
  constraint->accept(kControls + 'a');
  CHECK(bit(constraint->allowed(), kEnd));
  CHECK_FALSE(bit(constraint->allowed(), 0));
  CHECK_FALSE(bit(constraint->allowed(), 1));
  constraint->accept(kControls + 'b');
  CHECK_FALSE(bit(constraint->allowed(), kEnd));
}

TEST_CASE("tokens of several bytes may cross from one part of the grammar into the next") {
  const PieceTokenizer tokenizer =
      byte_tokenizer({"{\"", "\":", "\"a", "a\":", "1}", "}}", "\xC3\xA9\"", "{\"b"});
  GrammarCompiler compiler(tokenizer, tokenizer.vocab_size(), {kEnd});
  const auto constraint = make_constraint(compiler.compile_json_schema(
      R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})"));
  CHECK(bit(constraint->allowed(), tokenizer.find("{\"")));
  CHECK_FALSE(bit(constraint->allowed(), tokenizer.find("{\"b")));
  constraint->accept(tokenizer.find("{\""));
  CHECK(bit(constraint->allowed(), tokenizer.find("a\":")));
  CHECK_FALSE(bit(constraint->allowed(), tokenizer.find("\":")));
  constraint->accept(tokenizer.find("a\":"));
  CHECK(bit(constraint->allowed(), tokenizer.find("1}")));
  CHECK_FALSE(bit(constraint->allowed(), tokenizer.find("}}")));
  constraint->accept(tokenizer.find("1}"));
  CHECK(bit(constraint->allowed(), kEnd));
}

TEST_CASE("after a token that was not allowed no token is") {
  ByteCompiler compiler;
  const auto constraint = make_constraint(compiler->compile_regex("a*"));
  constraint->accept(kControls + 'b');
  for (TokenId id = 0; id < 259; ++id) CHECK_FALSE(bit(constraint->allowed(), id));
}

TEST_CASE("what the vocabulary cannot spell is not offered") {
  const PieceTokenizer tokenizer({"a", "b", "c", "bd"});
  GrammarCompiler compiler(tokenizer, tokenizer.vocab_size(), {kEnd});
  const auto constraint = make_constraint(compiler.compile_regex("a|b[cd]|ad"));
  constraint->accept(tokenizer.find("a"));
  CHECK(bit(constraint->allowed(), kEnd));
  CHECK_FALSE(bit(make_constraint(compiler.compile_regex("a|bd"))->allowed(), tokenizer.find("b")));
  CHECK_THROWS_AS(compiler.compile_regex("d"), GrammarError);
}

TEST_CASE("masks are as wide as the logits, and ids past the vocabulary are never allowed") {
  const PieceTokenizer tokenizer = byte_tokenizer();
  GrammarCompiler compiler(tokenizer, 400, {kEnd, 1000});
  const auto constraint = make_constraint(compiler.compile_regex("(.|\\n)*"));
  for (TokenId id = tokenizer.vocab_size(); id < 448; ++id) CHECK_FALSE(bit(constraint->allowed(), id));
  CHECK(bit(constraint->allowed(), kEnd));
}

TEST_CASE("the same text is compiled once, and kinds of text are kept apart") {
  ByteCompiler compiler;
  CHECK(compiler->compile_regex("true") == compiler->compile_regex("true"));
  CHECK(matches(compiler->compile_json_schema("true"), "1"));
  const auto first = compiler->compile_regex("a");
  for (int i = 0; i < 200; ++i) compiler->compile_regex("b" + std::to_string(i));
  CHECK(compiler->compile_regex("a") != first);
}

TEST_CASE("grammars may be compiled on several threads at once") {
  ByteCompiler compiler;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = "x" + std::to_string((i * 7 + t) % 90);
        wrong[t] += !matches(compiler->compile_regex(text), text);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("text nested thousands deep is followed, and a long text does not pile up") {
  ByteCompiler compiler;
  const auto compiled = compiler->compile_json_schema("true");
  CHECK(matches(compiled, std::string(20000, '[') + std::string(20000, ']')));
  std::string flat = "[0";
  for (int i = 0; i < 20000; ++i) flat += ",{\"k\": [" + std::to_string(i) + "]}";
  CHECK(judge(compiled, flat) == Verdict::prefix);
  CHECK(matches(compiled, flat + "]"));
}

TEST_CASE("a grammar too ambiguous to follow ends in an empty mask, not in a stall") {
  ByteCompiler compiler;
  const auto constraint =
      make_constraint(compiler->compile_grammar(R"(root ::= "a" root root root? | "a" | "a" root)"));
  bool empty = false;
  for (int i = 0; i < 5000 && !empty; ++i) {
    const std::uint64_t* mask = constraint->allowed();
    empty = !bit(mask, kControls + 'a');
    CHECK(bit(mask, kEnd) == (i > 0 && !empty));
    constraint->accept(kControls + 'a');
  }
  CHECK(empty);
  CHECK_FALSE(bit(constraint->allowed(), kControls + 'a'));
}

// A token is masked if and only if no valid text starts that way: compared, token by token, with an
// independent definition of the language.

#include <optional>

#include <doctest/doctest.h>

#include "engine/grammar/constraint.h"
#include "tests/grammar/random_grammar.h"
#include "tests/grammar/random_schema.h"
#include "tests/grammar/schema_validator.h"
#include "tests/grammar/test_vocabulary.h"

using namespace grokd;
using namespace grokd::testing;

namespace {

const PieceTokenizer& vocabulary_of_300() {
  static const PieceTokenizer tokenizer =
      byte_tokenizer({"{\"",      "\":",        "\",", "\":\"",   "\", \"", "true",     "fal",
                      "null",     " 1",         "12",  "abc",     "\"a\"",  "\xC3\xA9", "\xE6\x97\xA5",
                      "\xE6\x97", "\x97\xA5\"", "\\u", "\\n",     "}]",     "]}",       "}}",
                      "[[",       "[]",         "{}",  "{\"a\":", "ab\":",  "\"id\"",   ",\n",
                      "\n  ",     "\": ",       "0.",  "e+",      "red",    "ed\"",     "\\\"",
                      "a\\\"b",   "\\ud8",      "  ",  "\"\"",    "xx",     "-1"});
  return tokenizer;
}

constexpr int kMaxTerms = 20'000;  // ambiguous grammars make the definition's terms large: stop there

/// Where a walk of tokens is, in both worlds.
struct Walk {
  Language& language;
  Term term;
  std::unique_ptr<TokenConstraint> constraint;
  std::string text;
};

/// The allowed tokens, after checking each of the vocabulary.
std::vector<TokenId> checked_tokens(Walk& walk) {
  const PieceTokenizer& tokenizer = vocabulary_of_300();
  const std::uint64_t* mask = walk.constraint->allowed();
  std::vector<TokenId> allowed;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    const bool expected = id == kEnd
                              ? walk.language.has_empty(walk.term)
                              : !bytes.empty() && walk.language.after(walk.term, bytes) != Language::kNothing;
    if (bit(mask, id) != expected)
      FAIL("token '", std::string(bytes), "' (", id, ") after ", walk.text, ": expected ", expected);
    if (expected) allowed.push_back(id);
  }
  return allowed;
}

/// Some token at first, then one that brings the text to its end.
TokenId choose(const std::vector<TokenId>& allowed, int step, std::mt19937& random) {
  constexpr int kRandomSteps = 25;
  if (step >= kRandomSteps) {
    if (allowed.front() == kEnd) return kEnd;
    for (const char c : std::string_view("\"}]ntf0:,")) {
      const TokenId id = kControls + static_cast<unsigned char>(c);
      if (std::binary_search(allowed.begin(), allowed.end(), id)) return id;
    }
  }
  std::vector<TokenId> pieces;  // rather than bytes, of which there are many
  for (TokenId id : allowed) {
    if (id >= kControls + 256) pieces.push_back(id);
  }
  const auto& from = !pieces.empty() && random() % 2 == 0 ? pieces : allowed;
  return from[random() % from.size()];
}

/// Walks to the end of a text or for `max_steps`, checking the mask at every step. The text, if it is whole.
std::optional<std::string> checked_walk(Language& language, Term term, int max_steps,
                                        const std::shared_ptr<const CompiledGrammar>& compiled,
                                        std::mt19937& random) {
  Walk walk{language, term, make_constraint(compiled), ""};
  for (int step = 0; step < max_steps && language.num_terms() < kMaxTerms; ++step) {
    const std::vector<TokenId> allowed = checked_tokens(walk);
    REQUIRE_FALSE(allowed.empty());
    const TokenId token = choose(allowed, step, random);
    if (token == kEnd) return walk.text;
    const std::string_view bytes = vocabulary_of_300().bytes(token);
    walk.text += bytes;
    walk.term = walk.language.after(walk.term, bytes);
    walk.constraint->accept(token);
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("for 1,000 random schemas a token is masked exactly if no valid text follows") {
  REQUIRE(vocabulary_of_300().vocab_size() == 300);
  GrammarCompiler compiler(vocabulary_of_300(), 300, {kEnd});
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Language language;
    const RandomSchema schema = SchemaGenerator(language, seed).root();
    CAPTURE(seed);
    CAPTURE(schema.json.dump());
    const auto compiled = compiler.compile_json_schema(schema.json.dump());
    std::mt19937 random(seed);
    const auto text = checked_walk(language, schema.term, 1000, compiled, random);
    REQUIRE(text.has_value());
    CAPTURE(*text);
    const nlohmann::json plain = nlohmann::json::parse(schema.json.dump());
    CHECK(SchemaValidator(plain).fits(nlohmann::json::parse(*text)));
  }
}

TEST_CASE("for 500 random grammars a token is masked exactly if no valid text follows") {
  GrammarCompiler compiler(vocabulary_of_300(), 300, {kEnd});
  for (unsigned seed = 0; seed < 500; ++seed) {
    Language language;
    const RandomGrammar grammar = GrammarGenerator(language, seed).grammar();
    CAPTURE(seed);
    CAPTURE(grammar.text);
    const auto compiled = compiler.compile_grammar(grammar.text);
    std::mt19937 random(seed);
    checked_walk(language, grammar.term, 40, compiled, random);
  }
}

#pragma once
// What the fuzz targets of constrained output share: compile a text and follow it for some tokens.

#include <cstdlib>
#include <string_view>

#include "engine/grammar/constraint.h"
#include "tests/grammar/test_vocabulary.h"

namespace grokd::fuzz {

using Compile = std::shared_ptr<const CompiledGrammar> (GrammarCompiler::*)(std::string_view);

/// Aborts if a grammar that compiled has no token to begin with.
inline void follow(const std::shared_ptr<const CompiledGrammar>& compiled, int vocab_size) {
  const auto constraint = make_constraint(compiled);
  bool has_tokens = true;
  for (int step = 0; step < 16 && has_tokens; ++step) {
    const std::uint64_t* mask = constraint->allowed();
    TokenId token = -1;
    for (int i = 0; i < vocab_size && token < 0; ++i) {
      const TokenId candidate = (i + 37 * step) % vocab_size;
      if (testing::bit(mask, candidate) && candidate != testing::kEnd) token = candidate;
    }
    has_tokens = token >= 0;
    if (!has_tokens && step == 0 && !testing::bit(mask, testing::kEnd)) std::abort();
    if (has_tokens) constraint->accept(token);
  }
}

inline void check_constraint(Compile compile, std::string_view text) {
  const testing::PieceTokenizer tokenizer =
      testing::byte_tokenizer({"{\"", "\":", "abc", "\xC3\xA9\xC3\xA9"});
  GrammarCompiler compiler(tokenizer, tokenizer.vocab_size(), {testing::kEnd});
  try {
    follow((compiler.*compile)(text), tokenizer.vocab_size());
  } catch (const GrammarError&) {
  }
}

}  // namespace grokd::fuzz

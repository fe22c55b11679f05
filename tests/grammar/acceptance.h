#pragma once
// Whether a compiled grammar takes a text, by feeding it to a constraint byte by byte.

#include <string_view>

#include "engine/grammar/constraint.h"
#include "tests/grammar/test_vocabulary.h"

namespace grokd::testing {

enum class Verdict { refused, prefix, complete };

/// Compiles with a vocabulary of the 256 bytes.
class ByteCompiler {
 public:
  ByteCompiler() : tokenizer_(byte_tokenizer()), compiler_(tokenizer_, tokenizer_.vocab_size(), {kEnd}) {}
  GrammarCompiler* operator->() { return &compiler_; }

 private:
  PieceTokenizer tokenizer_;
  GrammarCompiler compiler_;
};

inline Verdict judge(const std::shared_ptr<const CompiledGrammar>& compiled, std::string_view text) {
  const auto constraint = make_constraint(compiled);
  for (const char c : text) {
    const TokenId id = kControls + static_cast<unsigned char>(c);
    if (!bit(constraint->allowed(), id)) return Verdict::refused;
    constraint->accept(id);
  }
  return bit(constraint->allowed(), kEnd) ? Verdict::complete : Verdict::prefix;
}

inline bool matches(const std::shared_ptr<const CompiledGrammar>& compiled, std::string_view text) {
  return judge(compiled, text) == Verdict::complete;
}

}  // namespace grokd::testing

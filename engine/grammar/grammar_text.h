#pragma once
// Grammars as text: `name ::= alternatives`, in the manner of GBNF. The notation: docs/constrained-output.md.

#include <string_view>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

/// Throws GrammarError naming line and column.
Grammar parse_grammar_text(std::string_view text);

}  // namespace grokd::grammar

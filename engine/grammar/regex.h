#pragma once
// Regular expressions, matched against the whole text. The subset: docs/constrained-output.md.

#include <string_view>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

/// Throws GrammarError naming line and column.
Grammar parse_regex(std::string_view text);

}  // namespace grokd::grammar

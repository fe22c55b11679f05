#pragma once
// JSON Schema -> grammar of the JSON texts that fit it. The subset and the form of the texts:
// docs/constrained-output.md.

#include <string_view>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

/// Throws GrammarError; about a keyword that is not supported it names it and where it stands.
Grammar parse_json_schema(std::string_view text);

/// Any JSON object.
Grammar json_object_grammar();

}  // namespace grokd::grammar

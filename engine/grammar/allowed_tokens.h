#pragma once
// From a configuration of the automaton to the set of tokens that may come next.

#include <cstdint>
#include <vector>

#include "engine/grammar/stack_automaton.h"
#include "engine/grammar/token_trie.h"

namespace grokd::grammar {

/// Sets the bits of the tokens in `mask` whose bytes can be read from `config`. Throws TooAmbiguous.
void add_allowed_tokens(const TokenTrie& trie, StackAutomaton& automaton, ConfigId config,
                        std::vector<std::uint64_t>& mask);

}  // namespace grokd::grammar

#pragma once
// The subset construction.

#include "engine/grammar/rule_automata.h"

namespace grokd::grammar {

/// What is left of the bounds for one grammar.
struct SubsetBudget {
  int states = kMaxStates;
  long work = 50L * kMaxStates;  // NFA nodes looked at, some 100 ms
};

/// Appends the deterministic form of `nfa` to `states`; returns its start. Throws GrammarError over the
/// budget.
StateId determinize(const Nfa& nfa, std::vector<State>& states, SubsetBudget& budget);

}  // namespace grokd::grammar

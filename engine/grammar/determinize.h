#pragma once
// The subset construction.

#include "engine/grammar/rule_automata.h"

namespace grokd::grammar {

/// What is left of the bounds for one grammar.
struct SubsetBudget {
  int states = kMaxStates;
  long members = 10L * kMaxStates;  // NFA nodes over all states
};

/// Appends the deterministic form of `nfa` to `states`; returns its start. Throws GrammarError over the
/// budget.
StateId determinize(const Nfa& nfa, std::vector<State>& states, SubsetBudget& budget);

}  // namespace grokd::grammar

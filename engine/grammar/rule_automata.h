#pragma once
// A compiled grammar: one deterministic automaton a rule, whose edges read a byte or call a rule. Every state
// can reach the end of its rule, so whatever can be read can also be completed.

#include <bitset>
#include <vector>

#include "engine/grammar/nfa.h"

namespace grokd::grammar {

using StateId = int;

struct State {
  std::vector<ByteEdge> bytes;  // sorted, disjoint
  std::vector<CallEdge> calls;  // at most one a rule
  bool accepts = false;         // the rule may end here
  bool only_reads() const { return !accepts && calls.empty(); }
  /// Nothing to do here but to return: a call that would come back here need not be remembered.
  bool only_returns() const { return accepts && bytes.empty() && calls.empty(); }
};

/// State 0 belongs to no rule: it is where the root rule returns to, the end of the text.
inline constexpr StateId kEndOfText = 0;

struct RuleAutomata {
  std::vector<State> states;
  std::vector<StateId> start;  // of each rule; the root is rule 0
  std::vector<bool> nullable;  // rule matches the empty string
  std::vector<int> order;      // a rule that can call another before reading a byte has the lower number
};

/// `alphabet`: the bytes that may be used at all. Throws GrammarError: too large, left recursion, or no text
/// matches.
RuleAutomata compile_rules(const Grammar& grammar, const std::bitset<256>& alphabet);

}  // namespace grokd::grammar

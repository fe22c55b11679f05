#pragma once
// One rule of a grammar as a nondeterministic automaton. Its edges read a byte, call another rule, or read
// nothing.

#include <cstdint>
#include <map>
#include <vector>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

struct ByteEdge {
  std::uint8_t first = 0, last = 0;  // both included
  int target = 0;
};
struct CallEdge {
  RuleId rule = 0;
  int target = 0;  // where to go on after the rule
};

struct Nfa {
  struct Node {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<int> empty;
  };
  std::vector<Node> nodes;  // node 0 is the start
  int accept = 0;
};

/// Builds the automata of a grammar's rules. The bodies of large repetitions become additional rules,
/// numbered after those of the grammar.
class NfaBuilder {
 public:
  explicit NfaBuilder(const Grammar& grammar);
  /// Throws GrammarError over kMaxStates.
  std::vector<Nfa> build();

 private:
  int build_expr(ExprId id, int from);  // appends the expression after node `from`; returns its last node
  int build_literal(const Literal& e, int from);
  int build_choice(const Choice& e, int from);
  int build_repeat(const Repeat& e, bool large, int from);
  int build_ordered_list(const OrderedList& e, int from);
  int build_other_word(const OtherWord& e, int from);
  void add_characters(int from, const CharSet& set, int to);
  int add_call(RuleId rule, int from);
  int add_node();
  void link(int from, int to) { nfa_.nodes[from].empty.push_back(to); }
  RuleId outlined(ExprId body);

  const Grammar& grammar_;
  std::vector<ExprId> bodies_;         // of the rules: the grammar's, then the additional ones
  std::map<ExprId, RuleId> outlined_;  // body of a large repetition -> its rule
  Nfa nfa_;                            // the rule in work
  int total_nodes_ = 0;
};

}  // namespace grokd::grammar

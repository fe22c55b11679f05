#include "engine/grammar/rule_automata.h"

#include <algorithm>
#include <string>

#include "engine/grammar/determinize.h"

namespace grokd::grammar {
namespace {

void restrict_bytes(State& state, const std::bitset<256>& alphabet) {
  std::vector<ByteEdge> kept;
  for (const ByteEdge& edge : state.bytes) {
    for (int byte = edge.first; byte <= edge.last; ++byte) {
      if (!alphabet[byte]) continue;
      const auto b = static_cast<std::uint8_t>(byte);
      if (!kept.empty() && kept.back().target == edge.target && kept.back().last + 1 == byte) {
        kept.back().last = b;
      } else {
        kept.push_back({b, b, edge.target});
      }
    }
  }
  state.bytes = std::move(kept);
}

/// Finds the states from which the end of their rule can be reached, through byte edges only if `use_bytes`.
/// Works backwards from the ends; a call edge counts once the start of the called rule does.
class EndReachability {
 public:
  EndReachability(const RuleAutomata& rules, bool use_bytes)
      : rules_(rules),
        reaches_(rules.states.size(), false),
        edges_into_(rules.states.size()),
        rule_starting_at_(rules.states.size(), -1),
        waiting_for_(rules.start.size()) {
    for (std::size_t r = 0; r < rules.start.size(); ++r)
      rule_starting_at_[rules.start[r]] = static_cast<int>(r);
    for (std::size_t s = 0; s < rules.states.size(); ++s) {
      const State& state = rules.states[s];
      const StateId from = static_cast<StateId>(s);
      if (state.accepts) todo_.push_back(from);
      for (const CallEdge& edge : state.calls) edges_into_[edge.target].push_back({from, edge.rule});
      if (!use_bytes) continue;
      for (const ByteEdge& edge : state.bytes) edges_into_[edge.target].push_back({from, -1});
    }
  }

  std::vector<bool> run() {
    while (!todo_.empty()) {
      const StateId state = todo_.back();
      todo_.pop_back();
      if (reaches_[state]) continue;
      reaches_[state] = true;
      for (const Edge& edge : edges_into_[state]) follow(edge);
      if (const RuleId rule = rule_starting_at_[state]; rule >= 0) {
        todo_.insert(todo_.end(), waiting_for_[rule].begin(), waiting_for_[rule].end());
      }
    }
    return reaches_;
  }

 private:
  struct Edge {
    StateId from = 0;
    RuleId called = -1;  // -1: the edge reads a byte
  };

  void follow(const Edge& edge) {
    if (edge.called < 0 || reaches_[rules_.start[edge.called]]) {
      todo_.push_back(edge.from);
    } else {
      waiting_for_[edge.called].push_back(edge.from);
    }
  }

  const RuleAutomata& rules_;
  std::vector<bool> reaches_;
  std::vector<std::vector<Edge>> edges_into_;
  std::vector<RuleId> rule_starting_at_;           // -1: none
  std::vector<std::vector<StateId>> waiting_for_;  // states that reach their end once the rule's start does
  std::vector<StateId> todo_;
};

/// Removes every edge after which the text could not be completed.
void remove_dead_ends(RuleAutomata& rules) {
  const std::vector<bool> alive = EndReachability(rules, true).run();
  if (!alive[rules.start[0]]) throw GrammarError("no text that the vocabulary can spell matches");
  for (State& state : rules.states) {
    std::erase_if(state.bytes, [&](const ByteEdge& e) { return !alive[e.target]; });
    std::erase_if(state.calls,
                  [&](const CallEdge& e) { return !alive[e.target] || !alive[rules.start[e.rule]]; });
  }
}

void find_nullable(RuleAutomata& rules) {
  const std::vector<bool> empty = EndReachability(rules, false).run();
  for (StateId start : rules.start) rules.nullable.push_back(empty[start]);
}

/// The rules that `rule` can call before it reads a byte.
std::vector<RuleId> first_calls(const RuleAutomata& rules, RuleId rule, std::vector<RuleId>& seen_by) {
  std::vector<RuleId> out;
  std::vector<StateId> todo = {rules.start[rule]};
  while (!todo.empty()) {
    const StateId state = todo.back();
    todo.pop_back();
    if (seen_by[state] == rule) continue;
    seen_by[state] = rule;
    for (const CallEdge& edge : rules.states[state].calls) {
      out.push_back(edge.rule);
      if (rules.nullable[edge.rule]) todo.push_back(edge.target);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// Some rule on a cycle, given the callers of the rules that are on one or only called from one.
RuleId rule_on_cycle(const std::vector<std::vector<RuleId>>& callees, const std::vector<int>& callers) {
  const int num_rules = static_cast<int>(callees.size());
  std::vector<RuleId> a_caller(num_rules, -1);
  for (RuleId r = 0; r < num_rules; ++r) {
    if (callers[r] == 0) continue;
    for (RuleId callee : callees[r]) a_caller[callee] = r;
  }
  RuleId rule = static_cast<RuleId>(
      std::find_if(callers.begin(), callers.end(), [](int n) { return n > 0; }) - callers.begin());
  for (int i = 0; i < num_rules; ++i) rule = a_caller[rule];
  return rule;
}

/// Numbers the rules so that callers come before the rules they can call first; impossible with left
/// recursion.
void order_rules(RuleAutomata& rules, const Grammar& grammar) {
  const int num_rules = static_cast<int>(rules.start.size());
  std::vector<std::vector<RuleId>> callees(num_rules);
  std::vector<int> callers(num_rules, 0);  // not numbered yet
  std::vector<RuleId> seen_by(rules.states.size(), -1);
  for (RuleId r = 0; r < num_rules; ++r) {
    callees[r] = first_calls(rules, r, seen_by);
    for (RuleId callee : callees[r]) ++callers[callee];
  }
  std::vector<RuleId> ready;
  for (RuleId r = 0; r < num_rules; ++r) {
    if (callers[r] == 0) ready.push_back(r);
  }
  rules.order.assign(num_rules, 0);
  int next = 0;
  while (!ready.empty()) {
    const RuleId r = ready.back();
    ready.pop_back();
    rules.order[r] = next++;
    for (RuleId callee : callees[r]) {
      if (--callers[callee] == 0) ready.push_back(callee);
    }
  }
  if (next == num_rules) return;
  const RuleId rule = rule_on_cycle(callees, callers);
  const std::string name = rule < grammar.num_rules() ? grammar.name(rule) : "a repeated part";
  throw GrammarError("'" + name + "' is left-recursive: it can start with itself");
}

}  // namespace

RuleAutomata compile_rules(const Grammar& grammar, const std::bitset<256>& alphabet) {
  RuleAutomata rules;
  rules.states.push_back({{}, {}, true});
  static_assert(kEndOfText == 0);
  SubsetBudget budget;
  for (const Nfa& nfa : NfaBuilder(grammar).build()) {
    rules.start.push_back(determinize(nfa, rules.states, budget));
  }
  for (State& state : rules.states) restrict_bytes(state, alphabet);
  remove_dead_ends(rules);
  find_nullable(rules);
  order_rules(rules, grammar);
  return rules;
}

}  // namespace grokd::grammar

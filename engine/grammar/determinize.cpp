#include "engine/grammar/determinize.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace grokd::grammar {
namespace {

using Subset = std::vector<int>;  // NFA nodes, sorted

struct SubsetHash {
  std::size_t operator()(const Subset& subset) const {
    std::uint64_t hash = subset.size();
    for (int node : subset) {
      hash = (hash ^ static_cast<std::uint64_t>(node)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

class Determinizer {
 public:
  Determinizer(const Nfa& nfa, std::vector<State>& states, SubsetBudget& budget)
      : nfa_(nfa), states_(states), budget_(budget), seen_(nfa.nodes.size(), 0) {}

  StateId run() {
    const StateId start = state_of({0});
    for (std::size_t i = 0; i < subsets_.size(); ++i) {
      const StateId state = start + static_cast<int>(i);
      const Subset subset = *subsets_[i];  // `state_of` moves the vector
      states_[state].accepts = std::binary_search(subset.begin(), subset.end(), nfa_.accept);
      add_calls(state, subset);
      add_bytes(state, subset);
    }
    return start;
  }

 private:
  void add_calls(StateId state, const Subset& subset) {
    std::map<RuleId, std::vector<int>> targets;
    for (int node : subset) {
      for (const CallEdge& edge : nfa_.nodes[node].calls) targets[edge.rule].push_back(edge.target);
    }
    for (auto& [rule, nodes] : targets) {
      const StateId target = state_of(std::move(nodes));
      states_[state].calls.push_back({rule, target});
    }
  }

  /// Cuts the bytes where any edge begins or ends; within a piece all bytes lead to the same nodes.
  void add_bytes(StateId state, const Subset& subset) {
    std::vector<ByteEdge> edges;
    std::vector<int> cuts;
    for (int node : subset) {
      for (const ByteEdge& edge : nfa_.nodes[node].bytes) {
        edges.push_back(edge);
        cuts.push_back(edge.first);
        cuts.push_back(edge.last + 1);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    spend(edges.size() * cuts.size() / 8);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) add_piece(state, edges, cuts[i], cuts[i + 1] - 1);
  }

  void add_piece(StateId state, const std::vector<ByteEdge>& edges, int first, int last) {
    std::vector<int> nodes;
    for (const ByteEdge& edge : edges) {
      if (edge.first <= first && last <= edge.last) nodes.push_back(edge.target);
    }
    if (nodes.empty()) return;
    const StateId target = state_of(std::move(nodes));
    auto& bytes = states_[state].bytes;
    if (!bytes.empty() && bytes.back().target == target && bytes.back().last + 1 == first) {
      bytes.back().last = static_cast<std::uint8_t>(last);
    } else {
      bytes.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), target});
    }
  }

  StateId state_of(std::vector<int> nodes) {
    const auto [it, is_new] = ids_.try_emplace(closure(std::move(nodes)), static_cast<int>(states_.size()));
    if (is_new) {
      if (--budget_.states < 0) throw GrammarError("the grammar is too large");
      subsets_.push_back(&it->first);
      states_.emplace_back();
    }
    return it->second;
  }

  Subset closure(std::vector<int> nodes) {
    ++round_;
    Subset out;
    while (!nodes.empty()) {
      const int node = nodes.back();
      nodes.pop_back();
      if (seen_[node] == round_) continue;
      seen_[node] = round_;
      const Nfa::Node& n = nfa_.nodes[node];
      nodes.insert(nodes.end(), n.empty.begin(), n.empty.end());
      // A node that only passes on says nothing: without it more subsets are equal.
      if (!n.bytes.empty() || !n.calls.empty() || node == nfa_.accept) out.push_back(node);
    }
    std::sort(out.begin(), out.end());
    spend(out.size());
    return out;
  }

  void spend(std::size_t work) {
    budget_.work -= 1 + static_cast<long>(work);
    if (budget_.work < 0) throw GrammarError("the grammar is too large");
  }

  const Nfa& nfa_;
  std::vector<State>& states_;
  SubsetBudget& budget_;
  std::unordered_map<Subset, StateId, SubsetHash> ids_;
  std::vector<const Subset*> subsets_;  // keys of ids_, in the order of their states
  std::vector<long> seen_;              // the round of `closure` that last met the node
  long round_ = 0;
};

}  // namespace

StateId determinize(const Nfa& nfa, std::vector<State>& states, SubsetBudget& budget) {
  return Determinizer(nfa, states, budget).run();
}

}  // namespace grokd::grammar

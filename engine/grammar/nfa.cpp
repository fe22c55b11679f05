#include "engine/grammar/nfa.h"

#include <algorithm>
#include <tuple>

namespace grokd::grammar {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

/// `set` without the characters `cut`, which are sorted.
CharSet without(const CharSet& set, const std::map<char32_t, int>& cut) {
  CharSet out;
  for (CharRange range : set) {
    for (auto it = cut.lower_bound(range.first); it != cut.end() && it->first <= range.last; ++it) {
      if (it->first > range.first) out.push_back({range.first, it->first - 1});
      range.first = it->first + 1;
    }
    if (range.first <= range.last) out.push_back(range);
  }
  return normalized(std::move(out));
}

bool contains(const CharSet& set, char32_t c) {
  return std::any_of(set.begin(), set.end(), [&](CharRange r) { return r.first <= c && c <= r.last; });
}

}  // namespace

NfaBuilder::NfaBuilder(const Grammar& grammar) : grammar_(grammar) {
  for (RuleId rule = 0; rule < grammar.num_rules(); ++rule) bodies_.push_back(grammar.body(rule));
}

std::vector<Nfa> NfaBuilder::build() {
  std::vector<Nfa> rules;
  for (std::size_t rule = 0; rule < bodies_.size(); ++rule) {  // the number may grow on the way
    nfa_ = Nfa{};
    const int start = add_node();
    nfa_.accept = build_expr(bodies_[rule], start);
    rules.push_back(std::move(nfa_));
  }
  return rules;
}

int NfaBuilder::add_node() {
  if (++total_nodes_ > kMaxStates) throw GrammarError("the grammar is too large");
  nfa_.nodes.emplace_back();
  return static_cast<int>(nfa_.nodes.size()) - 1;
}

int NfaBuilder::build_expr(ExprId id, int from) {
  return std::visit(Overloaded{
                        [&](const Literal& e) { return build_literal(e, from); },
                        [&](const Characters& e) {
                          const int end = add_node();
                          add_characters(from, e.set, end);
                          return end;
                        },
                        [&](const Sequence& e) {
                          int end = from;
                          for (ExprId part : e.parts) end = build_expr(part, end);
                          return end;
                        },
                        [&](const Choice& e) { return build_choice(e, from); },
                        [&](const Repeat& e) { return build_repeat(e, grammar_.is_large_repeat(id), from); },
                        [&](const OrderedList& e) { return build_ordered_list(e, from); },
                        [&](const OtherWord& e) { return build_other_word(e, from); },
                        [&](const Call& e) { return add_call(e.rule, from); },
                    },
                    grammar_[id]);
}

int NfaBuilder::build_literal(const Literal& e, int from) {
  for (const char c : e.bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    const int next = add_node();
    nfa_.nodes[from].bytes.push_back({byte, byte, next});
    from = next;
  }
  return from;
}

int NfaBuilder::build_choice(const Choice& e, int from) {
  const int end = add_node();
  for (ExprId option : e.options) link(build_expr(option, from), end);
  return end;
}

int NfaBuilder::build_repeat(const Repeat& e, bool large, int from) {
  const auto append_body = [&](int node) {
    return large ? add_call(outlined(e.body), node) : build_expr(e.body, node);
  };
  for (int i = 0; i < e.min; ++i) from = append_body(from);
  const int end = add_node();
  if (e.max == kUnbounded) {
    const int loop = add_node();  // not `from` itself: other alternatives may start there
    link(from, loop);
    link(append_body(loop), loop);
    link(loop, end);
    return end;
  }
  for (int i = e.min; i < e.max; ++i) {
    link(from, end);
    from = append_body(from);
  }
  link(from, end);
  return end;
}

/// Two rows of nodes, one for "nothing emitted yet" and one for "something was", so that the separator stands
/// exactly between the items present.
int NfaBuilder::build_ordered_list(const OrderedList& e, int from) {
  int none = from;
  int some = add_node();
  for (const auto& item : e.items) {
    const int next_none = add_node();
    const int next_some = add_node();
    link(build_expr(item.expr, none), next_some);
    link(build_expr(item.expr, build_expr(e.separator, some)), next_some);
    if (!item.required) {
      link(none, next_none);
      link(some, next_some);
    }
    none = next_none;
    some = next_some;
  }
  const int end = add_node();
  link(none, end);
  link(build_expr(e.trailer, some), end);
  return end;
}

/// A trie of the words: every node but the words' ends accepts, and a character that leaves the trie is free.
int NfaBuilder::build_other_word(const OtherWord& e, int from) {
  struct TrieNode {
    int nfa_node = 0;
    bool is_word = false;
    std::map<char32_t, int> next;
  };
  std::vector<TrieNode> trie = {{from, false, {}}};
  for (const std::u32string& word : e.words) {
    int at = 0;
    for (const char32_t c : word) {
      if (const auto found = trie[at].next.find(c); found != trie[at].next.end()) {
        at = found->second;
      } else {
        trie.push_back({add_node(), false, {}});
        trie[at].next[c] = static_cast<int>(trie.size()) - 1;
        at = static_cast<int>(trie.size()) - 1;
      }
    }
    trie[at].is_word = true;
  }
  const int end = add_node(), free = add_node();
  add_characters(free, e.set, free);
  link(free, end);
  for (const TrieNode& node : trie) {
    if (!node.is_word) link(node.nfa_node, end);
    add_characters(node.nfa_node, without(e.set, node.next), free);
    for (const auto& [c, child] : node.next) {
      if (contains(e.set, c)) add_characters(node.nfa_node, {{c, c}}, trie[child].nfa_node);
    }
  }
  return end;
}

/// Sequences that end alike share their last nodes.
void NfaBuilder::add_characters(int from, const CharSet& set, int to) {
  std::map<std::tuple<int, int, int>, int> shared;  // (first, last, target) of a byte -> the node before it
  for (const auto& sequence : utf8_sequences(set)) {
    int target = to;
    for (std::size_t i = sequence.size() - 1; i > 0; --i) {
      const ByteRange range = sequence[i];
      const auto [it, is_new] = shared.try_emplace({range.first, range.last, target}, 0);
      if (is_new) {
        it->second = add_node();
        nfa_.nodes[it->second].bytes.push_back({range.first, range.last, target});
      }
      target = it->second;
    }
    nfa_.nodes[from].bytes.push_back({sequence[0].first, sequence[0].last, target});
  }
}

int NfaBuilder::add_call(RuleId rule, int from) {
  const int end = add_node();
  nfa_.nodes[from].calls.push_back({rule, end});
  return end;
}

RuleId NfaBuilder::outlined(ExprId body) {
  const auto [it, is_new] = outlined_.try_emplace(body, static_cast<RuleId>(bodies_.size()));
  if (is_new) bodies_.push_back(body);
  return it->second;
}

}  // namespace grokd::grammar

#include "engine/grammar/allowed_tokens.h"

#include <span>

namespace grokd::grammar {
namespace {

constexpr int kLargeSubtree = 32;  // nodes; fewer are read in less time than it takes to find a run

void set_bits(std::span<const TokenId> tokens, bool value, std::vector<std::uint64_t>& mask) {
  for (TokenId id : tokens) mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{value} << (id % 64);
}

bool all_within(const TokenTrie::Text& text, const FreeRun& run) {
  return (text.ascii[0] & ~run.ascii[0]) == 0 && (text.ascii[1] & ~run.ascii[1]) == 0 &&
         (run.non_ascii || !text.has_non_ascii) && text.characters <= run.length;
}

bool is_read_whole(const TokenTrie& trie, int node, StackAutomaton& automaton, ConfigId before) {
  const int size = trie.nodes()[node].end - node;
  if (!trie.nodes()[node].is_text || size < kLargeSubtree) return false;
  return all_within(trie.text(node), automaton.uniform_run(before)) ||
         all_within(trie.text(node), automaton.wide_run(before));
}

/// The configuration after the bytes down to a node, and those after each byte more.
struct Level {
  ConfigId config = kDead;
  const ConfigId* next = nullptr;
};

}  // namespace

/// Walks the trie in preorder. A subtree is left where its first byte cannot be read, and taken whole where
/// all its texts lie within a run of characters that can be read in any order: that is nearly everything
/// inside a string. Leaves, of which there are most, take no branch.
void add_allowed_tokens(const TokenTrie& trie, StackAutomaton& automaton, ConfigId config,
                        std::vector<std::uint64_t>& mask) {
  const auto& nodes = trie.nodes();
  std::vector<Level> path(static_cast<std::size_t>(trie.max_depth()) + 1);
  path[0] = {config, automaton.next_of(config)};
  for (int i = 1; i < static_cast<int>(nodes.size());) {
    const TokenTrie::Node& node = nodes[i];
    const Level& before = path[node.depth - 1];
    const ConfigId after = before.next[node.byte];
    const int size = node.end - i;
    if (size == 1) {
      set_bits(trie.own_tokens(i), after != kDead, mask);
      ++i;
    } else if (after == kDead) {
      i = node.end;
    } else if (is_read_whole(trie, i, automaton, before.config)) {
      set_bits(trie.subtree_tokens(i), true, mask);
      i = node.end;
    } else {
      set_bits(trie.own_tokens(i), true, mask);
      path[node.depth] = {after, automaton.next_of(after)};
      ++i;
    }
  }
}

}  // namespace grokd::grammar

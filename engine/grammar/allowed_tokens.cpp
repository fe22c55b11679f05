#include "engine/grammar/allowed_tokens.h"

#include <span>

namespace grokd::grammar {
namespace {

constexpr int kLargeSubtree = 32;  // nodes; fewer are read in less time than it takes to find a run

void set_bits(std::span<const TokenId> tokens, bool value, std::vector<std::uint64_t>& mask) {
  for (TokenId id : tokens) mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{value} << (id % 64);
}

bool all_of(const TokenTrie::Text& text, const FreeRun& run) {
  return (text.ascii[0] & ~run.ascii[0]) == 0 && (text.ascii[1] & ~run.ascii[1]) == 0 &&
         (run.non_ascii || !text.has_non_ascii);
}

/// The tokens of a subtree down to a depth.
void add_shallow_tokens(const TokenTrie& trie, int root, int depth, std::vector<std::uint64_t>& mask) {
  const auto& nodes = trie.nodes();
  for (int i = root; i < nodes[root].end;) {
    if (nodes[i].depth > depth) {
      i = nodes[i].end;
      continue;
    }
    set_bits(trie.own_tokens(i), true, mask);
    ++i;
  }
}

/// True: the subtree is done with, for its texts are all of characters that can be read in any order.
bool add_by_length(const TokenTrie& trie, int node, StackAutomaton& automaton, ConfigId before,
                   std::vector<std::uint64_t>& mask) {
  const TokenTrie::Node& root = trie.nodes()[node];
  if (!root.is_text || root.end - node < kLargeSubtree) return false;
  const TokenTrie::Text& text = trie.text(node);
  const UniformRun& uniform = automaton.uniform_run(before);
  const bool fits = all_of(text, uniform);
  if (fits && uniform.ends && text.characters > uniform.length) {
    add_shallow_tokens(trie, node, root.depth - 1 + uniform.length, mask);
    return true;
  }
  const auto is_whole = [&](const FreeRun& run) {
    return all_of(text, run) && text.characters <= run.length;
  };
  if (!(fits && text.characters <= uniform.length) && !is_whole(automaton.wide_run(before))) return false;
  set_bits(trie.subtree_tokens(node), true, mask);
  return true;
}

/// The configuration after the bytes down to a node, and those after each byte more.
struct Level {
  ConfigId config = kDead;
  const ConfigId* next = nullptr;
};

}  // namespace

/// Walks the trie in preorder. A subtree is left where its first byte cannot be read, and taken whole where
/// all its texts lie within a run of characters that can be read in any order: that is nearly everything
/// inside a string. Where such a run must end, the shorter texts are taken. Leaves, of which there are most,
/// take no branch.
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
    } else if (add_by_length(trie, i, automaton, before.config, mask)) {
      i = node.end;
    } else {
      set_bits(trie.own_tokens(i), true, mask);
      path[node.depth] = {after, automaton.next_of(after)};
      ++i;
    }
  }
}

}  // namespace grokd::grammar

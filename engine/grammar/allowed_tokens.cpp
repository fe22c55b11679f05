#include "engine/grammar/allowed_tokens.h"

#include <span>

namespace grokd::grammar {
namespace {

constexpr int kLargeSubtree = 16;  // nodes; fewer are read in less time than it takes to find a run

void set_bits(std::span<const TokenId> tokens, std::vector<std::uint64_t>& mask) {
  for (TokenId id : tokens) mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
}

bool all_within(const TokenTrie::Text& text, const FreeRun& run) {
  return (text.ascii[0] & ~run.ascii[0]) == 0 && (text.ascii[1] & ~run.ascii[1]) == 0 &&
         (run.non_ascii || !text.has_non_ascii) && text.characters <= run.length;
}

}  // namespace

/// Walks the trie in preorder. A subtree is left where its first byte cannot be read, and taken whole where
/// all its texts lie within a run of characters that can be read in any order: that is nearly everything
/// inside a string.
void add_allowed_tokens(const TokenTrie& trie, StackAutomaton& automaton, ConfigId config,
                        std::vector<std::uint64_t>& mask) {
  const auto& nodes = trie.nodes();
  std::vector<ConfigId> path(static_cast<std::size_t>(trie.max_depth()) + 1, config);  // by depth
  for (int i = 1; i < static_cast<int>(nodes.size());) {
    const TokenTrie::Node& node = nodes[i];
    const ConfigId before = path[node.depth - 1];
    const ConfigId after = automaton.step(before, node.byte);
    if (after == kDead) {
      i = node.end;
      continue;
    }
    const int size = node.end - i;
    const bool try_whole =
        node.is_text && size > 1 && (size >= kLargeSubtree || automaton.knows_runs(before));
    const bool whole = try_whole && (all_within(trie.text(i), automaton.uniform_run(before)) ||
                                     all_within(trie.text(i), automaton.wide_run(before)));
    if (whole) {
      set_bits(trie.subtree_tokens(i), mask);
      i = node.end;
    } else {
      set_bits(trie.own_tokens(i), mask);
      path[node.depth] = after;
      ++i;
    }
  }
}

}  // namespace grokd::grammar

#include "engine/grammar/token_mask.h"

#include <span>

namespace grokd::grammar {
namespace {

constexpr int kSmallSubtree = 16;  // nodes; reading them costs less than finding a uniform run

void set_bits(std::span<const TokenId> tokens, std::vector<std::uint64_t>& mask) {
  for (TokenId id : tokens) mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
}

bool all_within(const TokenTrie::Node& node, const UniformRun& run) {
  return (node.ascii[0] & ~run.ascii[0]) == 0 && (node.ascii[1] & ~run.ascii[1]) == 0 &&
         (run.non_ascii || !node.has_non_ascii) && node.characters <= run.length;
}

}  // namespace

/// Walks the trie in preorder. A subtree is left where its first byte cannot be read, and taken whole where
/// all its texts lie within a uniform run: that is nearly everything inside a string.
void add_allowed_tokens(const TokenTrie& trie, StackAutomaton& automaton, ConfigId config,
                        std::vector<std::uint64_t>& mask) {
  const auto& nodes = trie.nodes();
  std::vector<ConfigId> path = {config};  // by depth
  for (int i = 1; i < static_cast<int>(nodes.size());) {
    const TokenTrie::Node& node = nodes[i];
    path.resize(node.depth);
    const ConfigId before = path.back();
    const ConfigId after = automaton.step(before, node.byte);
    const bool try_whole = after != kDead && node.is_text && node.end - i >= kSmallSubtree;
    if (after == kDead) {
      i = node.end;
    } else if (try_whole && all_within(node, automaton.uniform_run(before))) {
      set_bits(trie.subtree_tokens(i), mask);
      i = node.end;
    } else {
      set_bits(trie.own_tokens(i), mask);
      path.push_back(after);
      ++i;
    }
  }
}

}  // namespace grokd::grammar

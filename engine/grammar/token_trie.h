#pragma once
// The vocabulary as a trie over bytes, laid out in preorder: a subtree is a stretch of nodes, and its tokens
// a stretch of ids. Built once a tokenizer, immutable.

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace grokd::grammar {

class TokenTrie {
 public:
  struct Node {
    int end = 0;          // one past the last node of the subtree
    int first_token = 0;  // in `tokens_`; the node's own tokens, then those below it
    std::uint16_t depth = 0;
    std::uint8_t byte = 0;  // the edge from the parent
    bool is_text = false;   // the node has a `Text`
  };
  /// The texts from a node's parent down through the node, where the parent ends a character and all that
  /// follows is UTF-8 (the last character may be cut off).
  struct Text {
    std::array<std::uint64_t, 2> ascii = {};  // bit c: ASCII character c occurs
    std::uint16_t characters = 0;             // of the longest
    bool has_non_ascii = false;
  };

  /// Tokens without bytes, control ids and `excluded` are left out. Ids from `vocab_size` on are, too. The
  /// tokenizer must live as long.
  TokenTrie(const Tokenizer& tokenizer, int vocab_size, std::span<const TokenId> excluded);

  const std::vector<Node>& nodes() const { return nodes_; }  // node 0 is the root
  int max_depth() const { return max_depth_; }
  const Text& text(int node) const { return texts_[node]; }
  std::span<const TokenId> own_tokens(int node) const { return tokens_of(node, node + 1); }
  std::span<const TokenId> subtree_tokens(int node) const { return tokens_of(node, nodes_[node].end); }
  /// Of one token; empty if it is left out.
  std::string_view bytes(TokenId id) const { return bytes_[id]; }
  /// The bytes that are tokens by themselves: any text over them can be spelled.
  const std::bitset<256>& single_bytes() const { return single_bytes_; }

 private:
  std::span<const TokenId> tokens_of(int node, int end) const {
    return {tokens_.data() + first_token(node), tokens_.data() + first_token(end)};
  }
  int first_token(int node) const {
    return node < static_cast<int>(nodes_.size()) ? nodes_[node].first_token
                                                  : static_cast<int>(tokens_.size());
  }
  void add(std::string_view bytes, TokenId id, std::vector<int>& path);
  void describe_texts();

  std::vector<Node> nodes_;
  std::vector<Text> texts_;              // by node; apart, to keep what every walk reads small
  std::vector<TokenId> tokens_;          // in the order of the nodes
  std::vector<std::string_view> bytes_;  // by id
  std::bitset<256> single_bytes_;
  int max_depth_ = 0;
};

}  // namespace grokd::grammar

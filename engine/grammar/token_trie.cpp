#include "engine/grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "engine/grammar/char_set.h"

namespace grokd::grammar {
namespace {

constexpr std::size_t kMaxPieceBytes = std::numeric_limits<std::uint16_t>::max();

struct Piece {
  std::string_view bytes;
  TokenId id = 0;
};

std::vector<Piece> sorted_pieces(const Tokenizer& tokenizer, int vocab_size,
                                 std::span<const TokenId> excluded) {
  std::vector<Piece> pieces;
  for (TokenId id = 0; id < std::min(vocab_size, tokenizer.vocab_size()); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (bytes.empty() || bytes.size() > kMaxPieceBytes || tokenizer.is_control(id)) continue;
    if (std::find(excluded.begin(), excluded.end(), id) == excluded.end()) pieces.push_back({bytes, id});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  return pieces;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer, int vocab_size, std::span<const TokenId> excluded)
    : bytes_(vocab_size) {
  nodes_.emplace_back();
  std::vector<int> path = {0};  // the nodes of the last piece added
  for (const Piece& piece : sorted_pieces(tokenizer, vocab_size, excluded)) add(piece.bytes, piece.id, path);
  for (int node : path) nodes_[node].end = static_cast<int>(nodes_.size());
  describe_texts();
}

/// Pieces come sorted, so the new nodes belong at the end of the preorder.
void TokenTrie::add(std::string_view bytes, TokenId id, std::vector<int>& path) {
  std::size_t shared = 0;
  while (shared < bytes.size() && shared + 1 < path.size() &&
         nodes_[path[shared + 1]].byte == static_cast<std::uint8_t>(bytes[shared])) {
    ++shared;
  }
  for (; path.size() > shared + 1; path.pop_back()) nodes_[path.back()].end = static_cast<int>(nodes_.size());
  for (std::size_t i = shared; i < bytes.size(); ++i) {
    Node node;
    node.byte = static_cast<std::uint8_t>(bytes[i]);
    node.depth = static_cast<std::uint16_t>(i + 1);
    node.first_token = static_cast<int>(tokens_.size());
    path.push_back(static_cast<int>(nodes_.size()));
    nodes_.push_back(node);
  }
  max_depth_ = std::max(max_depth_, static_cast<int>(bytes.size()));
  tokens_.push_back(id);
  bytes_[id] = bytes;
  if (bytes.size() == 1) single_bytes_.set(static_cast<std::uint8_t>(bytes[0]));
}

/// Down from the root to see where characters begin and end, then back up to gather what subtrees contain.
void TokenTrie::describe_texts() {
  struct Position {
    Utf8State utf8;
    int parent = 0;
    int characters = 0;      // begun on the way from the root
    int longest = 0;         // of those on the ways through the subtree
    bool is_broken = false;  // somewhere in the subtree
  };
  std::vector<Position> at(nodes_.size());
  std::vector<int> path = {0};
  for (int i = 1; i < static_cast<int>(nodes_.size()); ++i) {
    path.resize(nodes_[i].depth);
    const Position& parent = at[path.back()];
    const int characters = parent.characters + (parent.utf8.missing == 0);
    const Utf8State utf8 = parent.utf8.after(nodes_[i].byte);
    at[i] = {utf8, path.back(), characters, characters, !utf8.valid};
    path.push_back(i);
  }
  texts_.resize(nodes_.size());
  for (int i = static_cast<int>(nodes_.size()) - 1; i > 0; --i) {
    const std::uint8_t byte = nodes_[i].byte;
    Position& parent = at[at[i].parent];
    Text& text = texts_[i];
    Text& parent_text = texts_[at[i].parent];
    if (byte < 0x80) {
      text.ascii[byte / 64] |= std::uint64_t{1} << (byte % 64);
    } else {
      text.has_non_ascii = true;
    }
    nodes_[i].is_text = parent.utf8.at_boundary() && !at[i].is_broken;
    text.characters = static_cast<std::uint16_t>(at[i].longest - parent.characters);
    parent.longest = std::max(parent.longest, at[i].longest);
    parent.is_broken = parent.is_broken || at[i].is_broken;
    parent_text.has_non_ascii = parent_text.has_non_ascii || text.has_non_ascii;
    for (int word = 0; word < 2; ++word) parent_text.ascii[word] |= text.ascii[word];
  }
}

}  // namespace grokd::grammar

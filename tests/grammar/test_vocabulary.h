#pragma once
// A tokenizer made of the pieces a test lists: ids 0-2 are control tokens (2 ends an answer), then come the
// pieces.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer.h"

namespace grokd::testing {

inline constexpr TokenId kEnd = 2;
inline constexpr int kControls = 3;

class PieceTokenizer final : public Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(kControls), longest_(0) {
    for (std::string& piece : pieces) {
      longest_ = std::max(longest_, static_cast<int>(piece.size()));
      pieces_.push_back(std::move(piece));
    }
  }
  int vocab_size() const override { return static_cast<int>(pieces_.size()); }
  std::string_view bytes(TokenId id) const override { return pieces_[id]; }
  std::string_view piece(TokenId id) const override { return pieces_[id]; }
  bool is_control(TokenId id) const override { return id < kControls; }
  bool adds_start_space() const override { return false; }
  int longest_piece_bytes() const override { return longest_; }
  TokenId find(std::string_view piece) const override {
    const auto found = std::find(pieces_.begin() + kControls, pieces_.end(), piece);
    return found == pieces_.end() ? -1 : static_cast<TokenId>(found - pieces_.begin());
  }
  /// Longest piece first.
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      TokenId best = -1;
      for (TokenId id = kControls; id < vocab_size(); ++id) {
        if (text.starts_with(pieces_[id]) && (best < 0 || pieces_[id].size() > pieces_[best].size()))
          best = id;
      }
      if (best < 0) return ids;
      ids.push_back(best);
      text.remove_prefix(pieces_[best].size());
    }
    return ids;
  }
  std::vector<TokenId> encode_plain(std::string_view text, bool) const override { return encode(text); }
  std::string decode(const std::vector<TokenId>& ids) const override {
    std::string text;
    for (TokenId id : ids) text += pieces_[id];
    return text;
  }

 private:
  std::vector<std::string> pieces_;
  int longest_;
};

/// All 256 bytes, then `more`.
inline PieceTokenizer byte_tokenizer(const std::vector<std::string>& more = {}) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.insert(pieces.end(), more.begin(), more.end());
  return PieceTokenizer(std::move(pieces));
}

inline bool bit(const std::uint64_t* mask, TokenId id) { return (mask[id / 64] >> (id % 64) & 1) != 0; }

}  // namespace grokd::testing

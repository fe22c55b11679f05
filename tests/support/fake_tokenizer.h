#pragma once
// A tokenizer whose vocabulary a test writes down: ids 0-3 are [PAD] [BOS] [EOS] [UNK], 4-259 the single
// bytes, then the pieces given.

#include <algorithm>

#include "engine/detokenizer.h"
#include "engine/tokenizer.h"

namespace grokd::test {

class FakeTokenizer : public Tokenizer {
 public:
  static constexpr TokenId kFirstByte = 4, kFirstPiece = 260;

  explicit FakeTokenizer(std::vector<std::string> pieces = {}) {
    pieces_ = {"[PAD]", "[BOS]", "[EOS]", "[UNK]"};
    bytes_ = {"", "", "", "?"};
    for (int byte = 0; byte < 256; ++byte) pieces_.push_back(bytes_.emplace_back(1, static_cast<char>(byte)));
    for (auto& piece : pieces) pieces_.push_back(bytes_.emplace_back(std::move(piece)));
  }

  static TokenId byte(unsigned value) { return kFirstByte + static_cast<TokenId>(value); }
  static std::vector<TokenId> bytes_of(std::string_view text) {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(byte(static_cast<unsigned char>(c)));
    return ids;
  }

  int vocab_size() const override { return static_cast<int>(bytes_.size()); }
  /// The longest piece that fits, from left to right.
  std::vector<TokenId> encode(std::string_view text) const override { return encode(text, true); }
  std::vector<TokenId> encode_plain(std::string_view text, bool) const override {
    return encode(text, false);
  }
  std::string_view bytes(TokenId id) const override {
    return known(id) ? bytes_[at(id)] : std::string_view{};
  }
  std::string_view piece(TokenId id) const override {
    return known(id) ? pieces_[at(id)] : std::string_view{};
  }
  bool is_control(TokenId id) const override { return id >= 0 && id < 3; }
  std::string decode(const std::vector<TokenId>& ids) const override {
    std::string text;
    Detokenizer detokenizer;
    for (const TokenId id : ids) detokenizer.push(bytes(id), text);
    detokenizer.flush(text);
    return text;
  }
  bool adds_start_space() const override { return false; }
  TokenId find(std::string_view piece) const override {
    const auto found = std::find(pieces_.begin(), pieces_.end(), piece);
    return found == pieces_.end() ? -1 : static_cast<TokenId>(found - pieces_.begin());
  }
  int longest_piece_bytes() const override {
    std::size_t longest = 1;
    for (const auto& piece : pieces_) longest = std::max(longest, piece.size());
    return static_cast<int>(longest);
  }

 private:
  static std::size_t at(TokenId id) { return static_cast<std::size_t>(id); }
  bool known(TokenId id) const { return id >= 0 && at(id) < bytes_.size(); }
  static bool is_marker(std::string_view piece) { return piece.starts_with("<|") && piece.ends_with("|>"); }

  std::vector<TokenId> encode(std::string_view text, bool markers) const {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      TokenId best = byte(static_cast<unsigned char>(text.front()));
      for (TokenId id = kFirstPiece; id < vocab_size(); ++id) {
        const bool usable = markers || !is_marker(bytes(id));
        if (usable && text.starts_with(bytes(id)) && bytes(id).size() > bytes(best).size()) best = id;
      }
      ids.push_back(best);
      text.remove_prefix(bytes(best).size());
    }
    return ids;
  }

  std::vector<std::string> pieces_, bytes_;
};

}  // namespace grokd::test

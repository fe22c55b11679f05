#include "engine/bytes_tokenizer.h"

#include <algorithm>

#include "engine/detokenizer.h"
#include "engine/models/config.h"

namespace grokd {

namespace {

constexpr TokenId kFirstByte = 4, kFirstWord = kFirstByte + 256;

std::string make_piece(TokenId id) {
  if (id < kFirstByte) return "<" + std::to_string(id) + ">";
  if (id < kFirstWord) return std::string(1, static_cast<char>(id - kFirstByte));
  return " w" + std::to_string(id);
}

class BytesTokenizer final : public Tokenizer {
 public:
  explicit BytesTokenizer(int vocab_size) {
    for (TokenId id = 0; id < vocab_size; ++id) pieces_.push_back(make_piece(id));
  }
  int vocab_size() const override { return static_cast<int>(pieces_.size()); }
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(kFirstByte + static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<TokenId> encode_plain(std::string_view text, bool) const override { return encode(text); }
  std::string_view bytes(TokenId id) const override {
    return is_control(id) ? "" : std::string_view(pieces_[id]);
  }
  std::string_view piece(TokenId id) const override { return pieces_[id]; }
  bool is_control(TokenId id) const override { return id < kFirstByte; }
  std::string decode(const std::vector<TokenId>& ids) const override {
    std::string text;
    Detokenizer joiner;
    for (const TokenId id : ids) joiner.push(bytes(id), text);
    joiner.flush(text);
    return text;
  }
  bool adds_start_space() const override { return false; }
  TokenId find(std::string_view piece) const override {
    const auto found = std::find(pieces_.begin(), pieces_.end(), piece);
    return found == pieces_.end() ? -1 : static_cast<TokenId>(found - pieces_.begin());
  }
  int longest_piece_bytes() const override { return static_cast<int>(pieces_.back().size()); }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bytes_tokenizer(int vocab_size) {
  if (vocab_size <= kFirstWord) {
    throw ConfigError("the \"bytes\" tokenizer needs a vocabulary of more than " +
                      std::to_string(kFirstWord) + " ids; this model has " + std::to_string(vocab_size));
  }
  return std::make_unique<BytesTokenizer>(vocab_size);
}

}  // namespace grokd

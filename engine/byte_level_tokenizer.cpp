#include "engine/byte_level_tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "engine/detokenizer.h"

namespace grokd {
namespace {

class ByteLevelTokenizer final : public Tokenizer {
 public:
  explicit ByteLevelTokenizer(ByteLevelModel model);

  int vocab_size() const override { return static_cast<int>(model_.tokens.size()); }
  std::vector<TokenId> encode(std::string_view text) const override;
  std::vector<TokenId> encode_plain(std::string_view text, bool) const override {
    std::vector<TokenId> ids;
    append_plain(text, ids);
    return ids;
  }
  std::string_view bytes(TokenId id) const override {
    return known(id) && !token(id).control ? std::string_view(token(id).bytes) : std::string_view();
  }
  std::string_view piece(TokenId id) const override {
    return known(id) ? std::string_view(token(id).piece) : std::string_view();
  }
  bool is_control(TokenId id) const override { return known(id) && token(id).control; }
  std::string decode(const std::vector<TokenId>& ids) const override;
  bool adds_start_space() const override { return false; }
  TokenId find(std::string_view piece) const override;
  int longest_piece_bytes() const override { return longest_; }

 private:
  bool known(TokenId id) const { return id >= 0 && id < vocab_size(); }
  const ByteLevelModel::Token& token(TokenId id) const { return model_.tokens[static_cast<std::size_t>(id)]; }
  TokenId added_at(std::string_view text) const;
  void append_plain(std::string_view text, std::vector<TokenId>& ids) const;
  void append_word(std::string_view word, std::vector<Symbol>& symbols, std::vector<TokenId>& ids) const;

  const ByteLevelModel model_;
  const BpeMerges merges_;
  std::unordered_map<std::string_view, TokenId> by_bytes_, by_piece_;
  std::array<TokenId, 256> byte_tokens_;
  std::array<std::vector<TokenId>, 256> added_;  // by first byte, longest first
  int longest_ = 1;
};

ByteLevelTokenizer::ByteLevelTokenizer(ByteLevelModel model)
    : model_(std::move(model)), merges_(model_.merges) {
  byte_tokens_.fill(-1);
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const ByteLevelModel::Token& one = token(id);
    by_piece_.emplace(one.piece, id);
    longest_ = std::max(longest_, static_cast<int>(one.bytes.size()));
    if (one.bytes.empty()) continue;
    const auto first = static_cast<unsigned char>(one.bytes[0]);
    if (one.added) {
      added_[first].push_back(id);
      continue;
    }
    by_bytes_.emplace(one.bytes, id);
    if (one.bytes.size() == 1) byte_tokens_[first] = id;
  }
  for (auto& list : added_) {
    std::stable_sort(list.begin(), list.end(),
                     [&](TokenId a, TokenId b) { return token(a).bytes.size() > token(b).bytes.size(); });
  }
}

TokenId ByteLevelTokenizer::added_at(std::string_view text) const {
  for (const TokenId id : added_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(token(id).bytes)) return id;
  }
  return -1;
}

std::vector<TokenId> ByteLevelTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const TokenId id = added_at(text.substr(i));
    if (id < 0) {
      ++i;
      continue;
    }
    append_plain(text.substr(begin, i - begin), ids);
    ids.push_back(id);
    begin = i += token(id).bytes.size();
  }
  append_plain(text.substr(begin), ids);
  return ids;
}

void ByteLevelTokenizer::append_plain(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    const std::size_t bytes = first_word(text, model_.pattern);
    append_word(text.substr(0, bytes), symbols, ids);
    text.remove_prefix(bytes);
  }
}

void ByteLevelTokenizer::append_word(std::string_view word, std::vector<Symbol>& symbols,
                                     std::vector<TokenId>& ids) const {
  if (model_.whole_words) {
    if (const auto whole = by_bytes_.find(word); whole != by_bytes_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  symbols.clear();
  for (const char byte : word) symbols.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

std::string ByteLevelTokenizer::decode(const std::vector<TokenId>& ids) const {
  std::string text;
  Detokenizer joiner;
  for (const TokenId id : ids) joiner.push(bytes(id), text);
  joiner.flush(text);
  return text;
}

TokenId ByteLevelTokenizer::find(std::string_view piece) const {
  const auto found = by_piece_.find(piece);
  return found == by_piece_.end() ? -1 : found->second;
}

}  // namespace

std::unique_ptr<Tokenizer> make_byte_level_tokenizer(ByteLevelModel model) {
  return std::make_unique<ByteLevelTokenizer>(std::move(model));
}

}  // namespace grokd

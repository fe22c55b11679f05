#include "engine/sentencepiece_bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <unordered_map>

#include "engine/bpe_merges.h"
#include "engine/utf8_chars.h"

namespace grokd {
namespace {

using kernels::TokenId;
using Piece = SentencePieceModel::Piece;
using PieceType = SentencePieceModel::PieceType;

constexpr char32_t kSpaceMark = 0x2581;
constexpr std::size_t kAscii = 128;

bool takes_part(const Piece& piece) {
  return piece.type == PieceType::normal || piece.type == PieceType::user_defined;
}

/// Symbols by their text while an encoder is built: pieces have their id, other characters numbers above.
class SymbolNames {
 public:
  explicit SymbolNames(const SentencePieceModel& model) : next_(static_cast<Symbol>(model.pieces.size())) {
    for (std::size_t i = 0; i < model.pieces.size(); ++i) {
      if (takes_part(model.pieces[i])) by_text_.emplace(model.pieces[i].text, static_cast<Symbol>(i));
    }
  }
  /// -1 if the text is neither a piece nor one character.
  Symbol find(std::string_view text) {
    if (const auto found = by_text_.find(text); found != by_text_.end()) return found->second;
    if (text.empty() || next_char(text).bytes != text.size()) return -1;
    return by_text_.emplace(text, next_++).first->second;
  }
  const std::unordered_map<std::string_view, Symbol>& all() const { return by_text_; }

 private:
  std::unordered_map<std::string_view, Symbol> by_text_;
  Symbol next_;
};

/// The characters of pieces: their symbols, and which two stand side by side in one. No merge joins others,
/// so that a text can be cut between them.
class Alphabet {
 public:
  Alphabet() { ascii_.fill(-1); }

  void add(char32_t c, Symbol symbol) {
    if (c < kAscii) ascii_[c] = symbol;
    others_[c] = symbol;
  }
  void add_neighbours(char32_t a, char32_t b) {
    if (a < kAscii && b < kAscii) ascii_pairs_[a * kAscii + b] = true;
    pairs_[pair_of(a, b)] = true;
  }
  /// -1: in no piece.
  Symbol symbol(char32_t c) const {
    if (c < kAscii) return ascii_[c];
    const auto found = others_.find(c);
    return found == others_.end() ? -1 : found->second;
  }
  bool neighbours(char32_t a, char32_t b) const {
    if (a < kAscii && b < kAscii) return ascii_pairs_[a * kAscii + b];
    return pairs_.count(pair_of(a, b)) > 0;
  }

 private:
  static std::uint64_t pair_of(char32_t a, char32_t b) { return (std::uint64_t{a} << 32) | b; }
  std::array<Symbol, kAscii> ascii_;
  std::array<bool, kAscii * kAscii> ascii_pairs_{};
  std::unordered_map<char32_t, Symbol> others_;
  std::unordered_map<std::uint64_t, bool> pairs_;
};

/// Ways to put each piece together from two symbols.
std::vector<Merge> merges_of(const SentencePieceModel& model, SymbolNames& names, Alphabet& alphabet) {
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    if (!takes_part(piece) || piece.text.empty()) continue;
    const std::string_view text = piece.text;
    const Utf8Char first = next_char(text);
    alphabet.add(first.code, names.find(text.substr(0, first.bytes)));
    char32_t before = first.code;
    for (std::size_t at = first.bytes; at < text.size();) {
      const Utf8Char c = next_char(text.substr(at));
      alphabet.add(c.code, names.find(text.substr(at, c.bytes)));
      alphabet.add_neighbours(before, c.code);
      const Symbol left = names.find(text.substr(0, at)), right = names.find(text.substr(at));
      if (left >= 0 && right >= 0) merges.push_back({left, right, static_cast<Symbol>(i), piece.score});
      before = c.code, at += c.bytes;
    }
  }
  return merges;
}

class Encoder final : public SentencePieceBpe {
 public:
  explicit Encoder(const SentencePieceModel& model) : Encoder(model, SymbolNames(model)) {}
  std::vector<TokenId> encode(std::string_view text, bool start_space) const override;

 private:
  Encoder(const SentencePieceModel& model, SymbolNames names);
  /// Characters that may merge, until one comes that the last of them stands beside in no piece.
  struct Run {
    std::vector<Symbol> symbols;
    char32_t last = 0;
  };
  const std::pair<std::string, TokenId>* user_defined_at(std::string_view text) const;
  void add_char(char32_t c, Run& run, std::vector<TokenId>& ids) const;
  void finish(Run& run, std::vector<TokenId>& ids) const;
  void add_unknown(char32_t c, std::vector<TokenId>& ids) const;

  Alphabet alphabet_;
  BpeMerges merges_;
  std::unordered_map<Symbol, char32_t> alone_;  // symbols that are no piece
  std::array<std::vector<std::pair<std::string, TokenId>>, 256>
      user_defined_;  // by first byte, longest first
  std::array<TokenId, 256> bytes_;
  TokenId unknown_ = -1, pieces_;
  bool byte_fallback_;
};

Encoder::Encoder(const SentencePieceModel& model, SymbolNames names)
    : merges_(merges_of(model, names, alphabet_)),
      pieces_(static_cast<TokenId>(model.pieces.size())),
      byte_fallback_(model.byte_fallback) {
  bytes_.fill(-1);
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (piece.type == PieceType::unknown) unknown_ = id;
    if (piece.type == PieceType::byte) bytes_[static_cast<std::size_t>(piece.byte_value())] = id;
    // A space never reaches the pieces as such.
    if (piece.type == PieceType::user_defined && !piece.text.empty() &&
        piece.text.find(' ') == piece.text.npos)
      user_defined_[static_cast<unsigned char>(piece.text[0])].emplace_back(piece.text, id);
  }
  for (auto& list : user_defined_) {
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }
  for (const auto& [text, symbol] : names.all()) {
    if (symbol >= pieces_) alone_[symbol] = next_char(text).code;
  }
}

const std::pair<std::string, TokenId>* Encoder::user_defined_at(std::string_view text) const {
  for (const auto& piece : user_defined_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(piece.first)) return &piece;
  }
  return nullptr;
}

/// As bytes, or else one unknown token for each run of such characters.
void Encoder::add_unknown(char32_t c, std::vector<TokenId>& ids) const {
  if (!byte_fallback_) {
    if (ids.empty() || ids.back() != unknown_) ids.push_back(unknown_);
    return;
  }
  char bytes[4];
  const std::size_t count = encode_char(c, bytes);
  for (std::size_t i = 0; i < count; ++i) ids.push_back(bytes_[static_cast<unsigned char>(bytes[i])]);
}

void Encoder::finish(Run& run, std::vector<TokenId>& ids) const {
  merges_.apply(run.symbols);
  for (const Symbol symbol : run.symbols) {
    if (symbol < pieces_) {
      ids.push_back(symbol);
    } else {
      add_unknown(alone_.at(symbol), ids);
    }
  }
  run.symbols.clear();
}

void Encoder::add_char(char32_t c, Run& run, std::vector<TokenId>& ids) const {
  const Symbol symbol = alphabet_.symbol(c);
  if (!run.symbols.empty() && (symbol < 0 || !alphabet_.neighbours(run.last, c))) finish(run, ids);
  if (symbol < 0) {
    add_unknown(c, ids);
    return;
  }
  run.symbols.push_back(symbol);
  run.last = c;
}

std::vector<TokenId> Encoder::encode(std::string_view text, bool start_space) const {
  std::vector<TokenId> ids;
  if (text.empty()) return ids;
  ids.reserve(text.size() / 3 + 8);
  Run run;
  if (start_space) add_char(kSpaceMark, run, ids);
  while (!text.empty()) {
    if (const auto* piece = user_defined_at(text)) {
      finish(run, ids);
      ids.push_back(piece->second);
      text.remove_prefix(piece->first.size());
      continue;
    }
    const Utf8Char c = next_char(text);
    add_char(c.code == ' ' ? kSpaceMark : c.code, run, ids);
    text.remove_prefix(c.bytes);
  }
  finish(run, ids);
  return ids;
}

/// Left to the library: pieces it takes apart again, user-defined ones that normalised text is needed to
/// find, and other names that a character could have.
bool is_usual(const Piece& piece) {
  const auto has = [&](std::string_view mark) { return piece.text.find(mark) != piece.text.npos; };
  if (piece.type == PieceType::unused) return false;
  if (piece.type == PieceType::user_defined) return !has("\xE2\x96\x81") && !has("\xEF\xBF\xBD");
  return takes_part(piece) || piece.text.empty() || next_char(piece.text).bytes < piece.text.size();
}

}  // namespace

std::unique_ptr<SentencePieceBpe> make_sentencepiece_bpe(const SentencePieceModel& model) {
  const bool plain = model.byte_pair && !model.has_charsmap && !model.removes_spaces &&
                     model.escapes_spaces && !model.spaces_behind;
  const bool usual = std::all_of(model.pieces.begin(), model.pieces.end(), is_usual);
  if (!plain || !usual) return nullptr;
  return std::make_unique<Encoder>(model);
}

}  // namespace grokd

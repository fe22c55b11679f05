#include "engine/tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdio>

#include "engine/detokenizer.h"
#include "engine/models/config.h"
#include "engine/sentencepiece_bpe.h"
#include "engine/sentencepiece_model.h"

namespace grokd {
namespace {

constexpr std::string_view kSpacePiece = "\xE2\x96\x81";  // U+2581 stands for a space

std::string spaces_for_marks(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool space = piece.starts_with(kSpacePiece);
    text += space ? ' ' : piece.front();
    piece.remove_prefix(space ? kSpacePiece.size() : 1);
  }
  return text;
}

using namespace std::string_view_literals;

// What encoders have differed in: spaces, line breaks, digits, markers, scripts, emoji, broken bytes, long
// words.
constexpr std::string_view kSamples[] = {
    "",
    " ",
    "The quick brown fox jumps over the lazy dog, 12345.67 times; it's \"fine\".",
    "  two spaces,\ttab\t\ttabs\n\nlines\r\n   and the end   ",
    "for (int i = 0; i < n; ++i) { sum += x[i] * 0x1F; }  // C++\n    return sum;\n",
    "<|separator|>\n\n<|control1|><s></s>[INST] <0x41> \xE2\x96\x81\xE2\x96\x81 [BOS]",
    "Stra\xC3\x9F"
    "e, \xD0\x9C\xD0\xBE\xD1\x81\xD0\xBA\xD0\xB2\xD0\xB0, \xE6\x9D\xB1\xE4\xBA\xAC\xE9\x83\xBD, "
    "\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7, e\xCC\x81",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 \xF0\x9F\x98\x80\xF0\x9F\x98\x80 \xEF\xBF\xBD",
    "a\xC3(\xE2\x82 \xFF\xFE\xED\xA0\x80\xF4\x90\x80\x80\xC0\x80\0b"sv,
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "pneumonoultramicroscopicsilicovolcanoconiosisdonaudampfschifffahrtsgesellschaftskapitaenswitwe",
};

bool is_marker(std::string_view piece) {
  return piece.size() > 4 && piece.starts_with("<|") && piece.ends_with("|>");
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& file);

  int vocab_size() const override { return static_cast<int>(bytes_.size()); }
  std::vector<TokenId> encode(std::string_view text) const override;
  std::vector<TokenId> encode_plain(std::string_view text, bool at_start) const override;
  std::string_view bytes(TokenId id) const override {
    return known(id) ? bytes_[at(id)] : std::string_view{};
  }
  std::string_view piece(TokenId id) const override {
    return known(id) ? std::string_view(processor_.IdToPiece(id)) : std::string_view{};
  }
  bool is_control(TokenId id) const override { return known(id) && processor_.IsControl(id); }
  std::string decode(const std::vector<TokenId>& ids) const override;
  bool adds_start_space() const override { return add_dummy_prefix_; }
  TokenId find(std::string_view piece) const override;
  int longest_piece_bytes() const override { return longest_piece_; }

 private:
  static std::size_t at(TokenId id) { return static_cast<std::size_t>(id); }
  bool known(TokenId id) const { return id >= 0 && at(id) < bytes_.size(); }
  std::string text_of(TokenId id, const SentencePieceModel& model) const;
  void choose_markers(const std::vector<TokenId>& user_defined);
  bool begins_with_marker(std::string_view text) const;
  void append_segment(std::string_view text, bool at_start, std::vector<TokenId>& ids) const;

  void choose_encoder(const std::string& file, const SentencePieceModel& model);

  sentencepiece::SentencePieceProcessor processor_;
  std::unique_ptr<SentencePieceBpe> bpe_;  // null: the library encodes
  std::vector<std::string> bytes_;         // by id
  std::vector<std::string> markers_;       // user-defined pieces <|...|>
  std::string anchor_;                     // a user-defined piece that no other one goes on from
  TokenId anchor_id_ = -1;
  bool add_dummy_prefix_ = true;
  int longest_piece_ = 1;
};

SentencePieceTokenizer::SentencePieceTokenizer(const std::string& file) {
  const auto status = processor_.Load(file);
  if (!status.ok()) throw ConfigError(file + ": not a SentencePiece model (" + status.ToString() + ")");
  const auto model = read_sentencepiece_model(processor_.serialized_model_proto());
  if (!model) throw ConfigError(file + ": not a SentencePiece model (damaged)");
  add_dummy_prefix_ = model->add_dummy_prefix;
  const int size = processor_.GetPieceSize();
  bytes_.reserve(at(size));
  for (TokenId id = 0; id < size; ++id) {
    bytes_.push_back(text_of(id, *model));
    longest_piece_ = std::max(longest_piece_, static_cast<int>(processor_.IdToPiece(id).size()));
  }
  choose_markers(model->user_defined);
  choose_encoder(file, *model);
  if (!bpe_ && add_dummy_prefix_ && anchor_id_ < 0) {
    throw ConfigError(file + ": a model that puts a space before each text needs a user-defined piece");
  }
}

std::string SentencePieceTokenizer::text_of(TokenId id, const SentencePieceModel& model) const {
  if (processor_.IsControl(id)) return {};
  if (processor_.IsUnknown(id)) return model.unk_surface;
  const std::string& piece = processor_.IdToPiece(id);
  if (processor_.IsByte(id))
    return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};  // <0x41>
  return spaces_for_marks(piece);
}

void SentencePieceTokenizer::choose_markers(const std::vector<TokenId>& user_defined) {
  const auto extended = [&](const std::string& piece) {
    return std::any_of(user_defined.begin(), user_defined.end(), [&](TokenId other) {
      const std::string& longer = processor_.IdToPiece(other);
      return longer.size() > piece.size() && longer.starts_with(piece);
    });
  };
  for (const TokenId id : user_defined) {
    const std::string& piece = processor_.IdToPiece(id);
    if (is_marker(piece)) markers_.push_back(piece);
    if (anchor_id_ < 0 && !extended(piece)) {
      anchor_ = piece;
      anchor_id_ = id;
    }
  }
}

/// Our own encoder, if it gives the library's ids for a sample of many kinds of text.
void SentencePieceTokenizer::choose_encoder(const std::string& file, const SentencePieceModel& model) {
  auto bpe = make_sentencepiece_bpe(model);
  if (!bpe) return;
  for (const std::string_view sample : kSamples) {
    if (bpe->encode(sample, add_dummy_prefix_) == processor_.EncodeAsIds(sample)) continue;
    std::fprintf(stderr, "grokd: %s: the fast encoder differs from SentencePiece, which is used instead\n",
                 file.c_str());
    return;
  }
  bpe_ = std::move(bpe);
}

std::vector<TokenId> SentencePieceTokenizer::encode(std::string_view text) const {
  if (bpe_) return bpe_->encode(text, add_dummy_prefix_);
  return processor_.EncodeAsIds(text);
}

bool SentencePieceTokenizer::begins_with_marker(std::string_view text) const {
  return text.starts_with("<|") && std::any_of(markers_.begin(), markers_.end(),
                                               [&](const auto& marker) { return text.starts_with(marker); });
}

/// The model's start space is kept off by encoding after a piece that merges with nothing.
void SentencePieceTokenizer::append_segment(std::string_view text, bool at_start,
                                            std::vector<TokenId>& ids) const {
  if (text.empty()) return;
  if (at_start || !add_dummy_prefix_) {
    const auto more = encode(text);
    ids.insert(ids.end(), more.begin(), more.end());
    return;
  }
  if (bpe_) {
    const auto more = bpe_->encode(text, false);
    ids.insert(ids.end(), more.begin(), more.end());
    return;
  }
  const auto more = encode(anchor_ + std::string(text));
  const auto anchor = std::find(more.begin(), more.end(), anchor_id_);
  ids.insert(ids.end(), anchor + 1, more.end());
}

/// A marker's text is cut behind its "<", so that the encoder never sees it whole.
std::vector<TokenId> SentencePieceTokenizer::encode_plain(std::string_view text, bool at_start) const {
  std::vector<TokenId> ids;
  std::size_t begin = 0;
  for (std::size_t i = text.find('<'); i != text.npos; i = text.find('<', i + 1)) {
    if (!begins_with_marker(text.substr(i))) continue;
    append_segment(text.substr(begin, i + 1 - begin), at_start && begin == 0, ids);
    begin = i + 1;
  }
  append_segment(text.substr(begin), at_start && begin == 0, ids);
  return ids;
}

std::string SentencePieceTokenizer::decode(const std::vector<TokenId>& ids) const {
  std::string text;
  Detokenizer detokenizer;
  bool start_space = add_dummy_prefix_;
  for (const TokenId id : ids) {
    std::string_view more = bytes(id);
    if (more.empty()) continue;
    if (start_space && piece(id).starts_with(kSpacePiece)) more.remove_prefix(1);
    start_space = false;
    detokenizer.push(more, text);
  }
  detokenizer.flush(text);
  return text;
}

TokenId SentencePieceTokenizer::find(std::string_view piece) const {
  const TokenId id = processor_.PieceToId(piece);
  return known(id) && processor_.IdToPiece(id) == piece ? id : -1;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& file) {
  return std::make_unique<SentencePieceTokenizer>(file);
}

}  // namespace grokd

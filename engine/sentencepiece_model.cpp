#include "engine/sentencepiece_model.h"

#include <charconv>
#include <cstdint>
#include <cstring>

namespace grokd {
namespace {

/// The fields of one protobuf message, in file order.
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : rest_(message) {}

  /// Moves to the next field; false at the end or when the message is damaged.
  bool next() {
    std::uint64_t key = 0;
    if (rest_.empty() || !take_varint(key)) return false;
    field_ = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        return take_varint(number_);
      case 1:
        return take_bytes(8);
      case 2:
        return take_varint(number_) && take_bytes(number_);
      case 5:
        return take_bytes(4);
      default:
        damaged_ = true;
        return false;
    }
  }
  int field() const { return field_; }
  std::uint64_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }
  bool damaged() const { return damaged_; }

 private:
  bool take_varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    damaged_ = true;
    return false;
  }
  bool take_bytes(std::uint64_t count) {
    if (count > rest_.size()) {
      damaged_ = true;
      return false;
    }
    bytes_ = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }

  std::string_view rest_, bytes_;
  std::uint64_t number_ = 0;
  int field_ = 0;
  bool damaged_ = false;
};

// Field numbers of sentencepiece_model.proto.
constexpr int kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3;
constexpr int kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr int kTrainerModelType = 3, kTrainerSpacesBehind = 24, kTrainerByteFallback = 35,
              kTrainerUnkSurface = 44;
constexpr int kNormalizerCharsmap = 2, kNormalizerAddDummyPrefix = 3, kNormalizerRemovesSpaces = 4,
              kNormalizerEscapesSpaces = 5;
constexpr std::uint64_t kBytePairModel = 2;

std::uint64_t number_field(std::string_view message, int field, std::uint64_t fallback) {
  MessageReader reader(message);
  while (reader.next()) {
    if (reader.field() == field) fallback = reader.number();
  }
  return fallback;
}

std::string bytes_field(std::string_view message, int field, std::string fallback) {
  MessageReader reader(message);
  while (reader.next()) {
    if (reader.field() == field) fallback = reader.bytes();
  }
  return fallback;
}

SentencePieceModel::Piece read_piece(std::string_view message) {
  SentencePieceModel::Piece piece;
  piece.text = bytes_field(message, kPieceText, "");
  const std::uint64_t type = number_field(message, kPieceType, 1);
  if (type >= 1 && type <= 6) piece.type = static_cast<SentencePieceModel::PieceType>(type);
  if (const std::string score = bytes_field(message, kPieceScore, ""); score.size() == sizeof piece.score)
    std::memcpy(&piece.score, score.data(), sizeof piece.score);
  return piece;
}

}  // namespace

int SentencePieceModel::Piece::byte_value() const {
  int value = 0;
  if (text.size() == 6) std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return value;
}

std::optional<SentencePieceModel> read_sentencepiece_model(std::string_view proto) {
  SentencePieceModel model;
  MessageReader reader(proto);
  kernels::TokenId id = 0;
  while (reader.next()) {
    if (reader.field() == kModelPieces) {
      model.pieces.push_back(read_piece(reader.bytes()));
      if (model.pieces.back().type == SentencePieceModel::PieceType::user_defined)
        model.user_defined.push_back(id);
      ++id;
    } else if (reader.field() == kModelTrainer) {
      model.byte_pair = number_field(reader.bytes(), kTrainerModelType, 1) == kBytePairModel;
      model.byte_fallback = number_field(reader.bytes(), kTrainerByteFallback, 0) != 0;
      model.spaces_behind = number_field(reader.bytes(), kTrainerSpacesBehind, 0) != 0;
      model.unk_surface = bytes_field(reader.bytes(), kTrainerUnkSurface, model.unk_surface);
    } else if (reader.field() == kModelNormalizer) {
      model.has_charsmap = !bytes_field(reader.bytes(), kNormalizerCharsmap, "").empty();
      model.removes_spaces = number_field(reader.bytes(), kNormalizerRemovesSpaces, 1) != 0;
      model.escapes_spaces = number_field(reader.bytes(), kNormalizerEscapesSpaces, 1) != 0;
      model.add_dummy_prefix = number_field(reader.bytes(), kNormalizerAddDummyPrefix, 1) != 0;
    }
  }
  if (reader.damaged()) return std::nullopt;
  return model;
}

}  // namespace grokd

#pragma once
// What a SentencePiece model file says and the library keeps to itself.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.h"

namespace grokd {

struct SentencePieceModel {
  enum class PieceType { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
    /// Of "<0x41>".
    int byte_value() const;
  };
  std::vector<Piece> pieces;
  bool byte_pair = false;                      // byte-pair encoding; else another algorithm
  bool byte_fallback = false;                  // characters without a piece become bytes
  bool has_charsmap = false;                   // characters are normalised
  bool removes_spaces = true;                  // at the ends and where there are several
  bool escapes_spaces = true;                  // U+2581 stands for a space
  bool spaces_behind = false;                  // spaces belong to the word before
  bool add_dummy_prefix = true;                // a space is put before every text
  std::string unk_surface = " \xE2\x81\x87 ";  // text of the unknown token
  std::vector<kernels::TokenId> user_defined;  // pieces matched as a whole inside the text, rising
};

/// Reads a serialised ModelProto; nothing if it is damaged.
std::optional<SentencePieceModel> read_sentencepiece_model(std::string_view proto);

}  // namespace grokd

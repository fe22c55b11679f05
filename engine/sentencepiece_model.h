#pragma once
// What a SentencePiece model file says and the library keeps to itself.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.h"

namespace grokd {

struct SentencePieceModel {
  bool add_dummy_prefix = true;                // a space is put before every text
  std::string unk_surface = " \xE2\x81\x87 ";  // text of the unknown token
  std::vector<kernels::TokenId> user_defined;  // pieces matched as a whole inside the text, rising
};

/// Reads a serialised ModelProto; nothing if it is damaged.
std::optional<SentencePieceModel> read_sentencepiece_model(std::string_view proto);

}  // namespace grokd

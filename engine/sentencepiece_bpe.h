#pragma once
// SentencePiece's byte-pair encoding: the same ids as the library's, several times as fast.

#include <memory>
#include <string_view>
#include <vector>

#include "engine/sentencepiece_model.h"

namespace grokd {

class SentencePieceBpe {
 public:
  virtual ~SentencePieceBpe() = default;
  /// `start_space`: with the space that the model puts before a text.
  virtual std::vector<kernels::TokenId> encode(std::string_view text, bool start_space) const = 0;
};

/// Null for a model that the library has to encode: not byte-pair encoding, a normaliser that changes
/// characters or removes spaces, pieces marked as unused.
std::unique_ptr<SentencePieceBpe> make_sentencepiece_bpe(const SentencePieceModel& model);

}  // namespace grokd

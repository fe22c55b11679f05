#pragma once
// Which tokens may be drawn, as bits over the vocabulary.

#include <cstdint>
#include <vector>

#include "engine/tokenizer.h"

namespace grokd {

class TokenMask {
 public:
  TokenMask() = default;
  /// The first `allowed` of `vocab_size` tokens.
  TokenMask(int vocab_size, int allowed);

  // Ids outside the vocabulary are ignored.
  void forbid(TokenId id);
  void allow(TokenId id);
  bool allows(TokenId id) const { return inside(id) && (word(id) >> (id % 64) & 1) != 0; }
  /// Keeps what both allow; `other` has as many words.
  void keep(const std::uint64_t* other);
  bool empty() const;
  const std::uint64_t* words() const { return words_.data(); }

 private:
  bool inside(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) / 64 < words_.size(); }
  const std::uint64_t& word(TokenId id) const { return words_[static_cast<std::size_t>(id) / 64]; }
  std::vector<std::uint64_t> words_;
};

/// The masks that all sequences share.
struct AnswerMasks {
  AnswerMasks(int vocab_size, int known_tokens, const SpecialTokens& special);
  TokenMask any;     // every token with a text, and end-of-sequence
  TokenMask no_end;  // without end-of-sequence
};

}  // namespace grokd

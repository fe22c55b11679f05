#include "engine/token_mask.h"

#include <algorithm>

namespace grokd {

TokenMask::TokenMask(int vocab_size, int allowed) : words_(static_cast<std::size_t>(vocab_size + 63) / 64) {
  allowed = std::min(allowed, vocab_size);
  for (int id = 0; id < allowed; ++id)
    words_[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
}

void TokenMask::forbid(TokenId id) {
  if (inside(id)) words_[static_cast<std::size_t>(id) / 64] &= ~(std::uint64_t{1} << (id % 64));
}

void TokenMask::allow(TokenId id) {
  if (inside(id)) words_[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
}

void TokenMask::keep(const std::uint64_t* other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other[i];
}

bool TokenMask::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
}

AnswerMasks::AnswerMasks(int vocab_size, int known_tokens, const SpecialTokens& special)
    : any(vocab_size, known_tokens) {
  for (const TokenId id : {special.pad, special.bos, special.unk}) any.forbid(id);
  no_end = any;
  no_end.forbid(special.eos);
}

}  // namespace grokd

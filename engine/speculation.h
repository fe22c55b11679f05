#pragma once
// Guessing the next tokens of a text that repeats itself, so that several can be checked in one step.

#include <span>

#include "kernels/tensor.h"

namespace grokd {

using kernels::TokenId;

inline constexpr int kMaxProposals = 8;

/// Writes to `proposals` what followed the last time the text went as it does now: after the longest earlier
/// occurrence of its end of at least two tokens, as if it went round from there on. The number written: all
/// or 0.
int propose(std::span<const TokenId> tokens, std::span<TokenId> proposals);

/// How well the proposals of one request do.
class ProposalRecord {
 public:
  /// Of `proposed` tokens that were compared with what was drawn the first `held` held.
  void learn(int proposed, int held);
  /// Tokens expected to hold of the first `proposals` of a guess.
  double expected(int proposals) const;

 private:
  double share_ = 0.3;  // of proposals that hold: at first so few that it must show before rows are spent
};

}  // namespace grokd

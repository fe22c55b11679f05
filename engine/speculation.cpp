#include "engine/speculation.h"

#include <algorithm>

namespace grokd {
namespace {

constexpr int kShortestMatch = 2, kLongestMatch = 6;
constexpr double kRecordWeight = 0.15;  // of the newest proposal

/// Tokens before `end` that are the same as those before the end of the text, at most kLongestMatch.
int match_length(std::span<const TokenId> tokens, std::size_t end) {
  int length = 0;
  while (length < kLongestMatch && end > static_cast<std::size_t>(length) &&
         tokens[end - 1 - static_cast<std::size_t>(length)] ==
             tokens[tokens.size() - 1 - static_cast<std::size_t>(length)]) {
    ++length;
  }
  return length;
}

}  // namespace

int propose(std::span<const TokenId> tokens, std::span<TokenId> proposals) {
  int best = kShortestMatch - 1;
  std::size_t from = 0;
  for (std::size_t end = tokens.empty() ? 0 : tokens.size() - 1; end > 0 && best < kLongestMatch; --end) {
    if (tokens[end - 1] != tokens.back()) continue;
    const int length = match_length(tokens, end);
    if (length <= best) continue;
    best = length;
    from = end;
  }
  if (from == 0) return 0;
  const std::size_t known = tokens.size() - from;  // after them it goes round
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    proposals[i] = i < known ? tokens[from + i] : proposals[i - known];
  }
  return static_cast<int>(proposals.size());
}

void ProposalRecord::learn(int proposed, int held) {
  for (int i = 0; i < std::min(held + 1, proposed); ++i) {
    share_ += kRecordWeight * ((i < held ? 1.0 : 0.0) - share_);
  }
}

double ProposalRecord::expected(int proposals) const {
  double sum = 0, all_held = 1;
  for (int i = 0; i < proposals; ++i) sum += all_held *= share_;
  return sum;
}

}  // namespace grokd

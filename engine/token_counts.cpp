#include "engine/token_counts.h"

#include <algorithm>

namespace grokd {

using kernels::TokenCount;
using kernels::TokenId;

void TokenCounts::start(std::span<const TokenId> prompt, int answer_tokens) {
  counts_.clear();
  counts_.reserve(prompt.size() + static_cast<std::size_t>(answer_tokens));
  std::vector<TokenId> sorted(prompt.begin(), prompt.end());
  std::sort(sorted.begin(), sorted.end());
  for (const TokenId id : sorted) {
    if (counts_.empty() || counts_.back().id != id) counts_.push_back({id, 0, 0});
    ++counts_.back().in_prompt;
  }
}

TokenCount& TokenCounts::entry(TokenId id) {
  const auto at = std::lower_bound(counts_.begin(), counts_.end(), id,
                                   [](const TokenCount& count, TokenId wanted) { return count.id < wanted; });
  if (at != counts_.end() && at->id == id) return *at;
  return *counts_.insert(at, {id, 0, 0});
}

void TokenCounts::add(TokenId id) { ++entry(id).in_answer; }

}  // namespace grokd

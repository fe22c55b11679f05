#pragma once
// How often each token occurs in a prompt and its answer, for the penalties.

#include <span>
#include <vector>

#include "kernels/sampling.h"

namespace grokd {

class TokenCounts {
 public:
  /// Counts the prompt; takes the memory for `answer_tokens` more.
  void start(std::span<const kernels::TokenId> prompt, int answer_tokens);
  void add(kernels::TokenId id);  // to the answer
  std::span<const kernels::TokenCount> all() const { return counts_; }

 private:
  kernels::TokenCount& entry(kernels::TokenId id);
  std::vector<kernels::TokenCount> counts_;  // ids rising
};

}  // namespace grokd

#pragma once
// One step's work: rows of several sequences, flat. Rebuilt each step in storage that is kept.

#include <span>
#include <vector>

#include "kernels/backend.h"

namespace grokd {

using kernels::TokenId;

struct Batch {
  std::vector<TokenId> ids;                      // [T]
  std::vector<kernels::SequenceRows> sequences;  // their rows follow each other in `ids`
  std::vector<std::int32_t> logit_rows;          // rows of `ids` whose logits are wanted, [R], rising
  std::vector<kernels::SamplingRow> sampling;    // [R]
  int tokens() const { return static_cast<int>(ids.size()); }
  void clear() {
    ids.clear();
    sequences.clear();
    logit_rows.clear();
    sampling.clear();
  }
};

}  // namespace grokd

#pragma once
// The places of a decoder's blocks of weights: WeightBlock::slot.

namespace grokd {

enum class Slot {
  embeddings,  // [V, D] f32
  head,
  final_norm,  // [D]
  norm,        // before attention, after it, before the experts, after them
  norm_1,
  norm_2,
  norm_3,
  router,  // [D, E]
  query_key_value,
  attention_out,
  expert,
  dense  // an MLP beside the experts
};

}  // namespace grokd

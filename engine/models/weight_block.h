#pragma once
// The weights of one rank as a list of blocks of memory in the backend's layout: what loading makes, what a
// packed file holds and what the memory plan adds up.

#include <cstddef>
#include <string>
#include <vector>

#include "engine/models/config.h"

namespace grokd {

/// Which part of each matrix a rank of the tensor-parallel group owns.
struct Shard {
  int rank = 0, ranks = 1;
};

enum class BlockKind {
  floats,      // a plain f32 array, whole
  head,        // the output embedding as codes
  linear_out,  // matrices side by side, their outputs cut over the ranks
  linear_in,   // one matrix, its inputs cut over the ranks
  expert       // gate, up and down of one expert, its width cut over the ranks
};

struct WeightBlock {
  std::string name;  // unique in a model: "layer 3 expert 5"
  BlockKind kind = BlockKind::floats;
  std::vector<std::string> tensors;  // paths in the checkpoint
  int layer = -1, slot = 0;          // where the architecture puts it
  int expert = 0;
  int in = 0, out = 0, groups = 1;  // of this rank; head: width, vocabulary; expert: width, its inner width
  float down_factor = 1;            // expert: what the scales of its second matrix are multiplied by
};

/// Bytes of a block in the CPU backend's layout.
std::size_t block_bytes(const WeightBlock& block);

}  // namespace grokd

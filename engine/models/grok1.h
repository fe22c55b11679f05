#pragma once
// Grok-1: attention with capped scores, mixture of experts, four norms a layer (docs/numerics.md, section 5).

#include "engine/models/model.h"

namespace grokd {

std::vector<WeightBlock> grok1_blocks(const ModelConfig& config, Shard shard);

std::unique_ptr<Model> load_grok1(BlockSource& source, const ModelSetup& setup);

}  // namespace grokd

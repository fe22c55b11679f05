#pragma once
// Transformer decoders: grouped-query attention with RoPE, a mixture of experts or one dense MLP, RMSNorm
// (docs/numerics.md, section 5). What sets the architectures apart is in their configuration.

#include "engine/models/model.h"

namespace grokd {

std::vector<WeightBlock> decoder_blocks(const ModelConfig& config, Shard shard);

std::unique_ptr<Model> load_decoder(BlockSource& source, const ModelSetup& setup);

}  // namespace grokd

#pragma once
// Bytes a model needs on one device, known before anything is loaded.

#include <cstddef>

#include "engine/models/config.h"
#include "kernels/backend.h"

namespace grokd {

/// int8 matrices with their scales, f32 embeddings, norms and routers, int16 output embedding: of one of
/// `ranks`.
std::size_t weight_bytes(const ModelConfig& config, int ranks = 1);

/// Weight bytes that one token at batch 1 reads: all of attention, the chosen experts, routers, output
/// embedding.
std::size_t bytes_per_token(const ModelConfig& config);

/// Weight bytes that a step of `tokens` tokens reads when routing is even: each expert that is met is read
/// once.
std::size_t step_bytes(const ModelConfig& config, int tokens);

/// Memory that this machine could still give, from /proc/meminfo; 0 if unknown.
std::size_t available_memory_bytes();

}  // namespace grokd

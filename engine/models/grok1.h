#pragma once
// Grok-1: attention with capped scores, mixture of experts, four norms a layer (docs/numerics.md, section 5).

#include "engine/models/model.h"

namespace grokd {

std::unique_ptr<Model> load_grok1(const Checkpoint& checkpoint, const ModelSetup& setup,
                                  const ProgressSink& progress);

}  // namespace grokd

#pragma once
// A router without weights: the expert follows from the token and its position (docs/numerics.md,
// section 5.7).

#include "engine/models/config.h"

namespace grokd {

/// The one expert of the token at a position, from 0 to groups * experts_per_group - 1.
int hash_expert(TokenId token, int position, int groups, int experts_per_group);

}  // namespace grokd

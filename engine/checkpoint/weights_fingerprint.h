#pragma once
// A short name for the weights of a checkpoint.

#include <string>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

/// 8 hexadecimal digits from the paths and a sample of each tensor's bytes: reading all of a large model
/// would double the time to load.
std::string weights_fingerprint(const Checkpoint& checkpoint);

}  // namespace grokd

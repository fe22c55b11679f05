#pragma once
// A folder of safetensors files: one, several with an index, or cut for several devices.

#include <memory>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/load_rules.h"

namespace grokd {

bool is_safetensors_checkpoint(const std::string& folder);

/// Maps the files and checks them against the config. Throws ConfigError naming file and tensor.
std::unique_ptr<Checkpoint> open_safetensors_checkpoint(const std::string& folder, const ModelConfig& config,
                                                        const LoadRules& rules);

}  // namespace grokd

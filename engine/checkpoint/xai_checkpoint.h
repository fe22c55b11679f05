#pragma once
// A folder in xAI's form: one pickle per tensor, tensor00000_000, tensor00001_000, ...

#include <memory>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/load_rules.h"

namespace grokd {

/// "tensor00012_000"
std::string xai_file_name(std::size_t index);

bool is_xai_checkpoint(const std::string& folder);

/// Maps every file and checks it against the config's tensor table. Throws ConfigError naming file and
/// tensor.
std::unique_ptr<Checkpoint> open_xai_checkpoint(const std::string& folder, const ModelConfig& config,
                                                const LoadRules& rules);

}  // namespace grokd

#pragma once
// A folder of GGUF files: one model, in one file or in several.

#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/load_rules.h"

namespace grokd {

/// In their order.
std::vector<std::string> gguf_files(const std::string& folder);

bool is_gguf_checkpoint(const std::string& folder);

/// Maps the files and checks them against the config. Throws ConfigError naming file and tensor.
std::unique_ptr<Checkpoint> open_gguf_checkpoint(const std::string& folder, const ModelConfig& config,
                                                 const LoadRules& rules);

}  // namespace grokd

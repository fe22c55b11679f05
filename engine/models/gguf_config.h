#pragma once
// The configuration that a GGUF file carries.

#include <string>

#include "engine/models/config.h"

namespace grokd {

/// Of the first GGUF file of a folder without config.json. Throws ConfigError naming file and key; for an
/// unknown architecture with the list of the known ones.
ModelConfig read_gguf_config(const std::string& model_dir);

}  // namespace grokd

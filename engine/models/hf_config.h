#pragma once
// config.json as Hugging Face's library writes it: for Llama, Mistral, Mixtral, Grok-1 and Grok-2.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/models/config.h"

namespace grokd {

bool is_hf_config(const nlohmann::json& document);

/// The configuration, with tokenizer and stop ids from the files beside `path`. Throws ConfigError naming the
/// file and the key; for an unknown architecture with the list of the known ones.
ModelConfig read_hf_config(const std::string& path, const nlohmann::json& document);

/// The scale groups of row-parallel matrices, where a checkpoint of float matrices leaves them to us: the
/// largest power of two up to 8 that cuts query heads and inner widths evenly.
int choose_scale_groups(const ModelConfig& config);

}  // namespace grokd

#pragma once
// What the files beside a Hugging Face config.json say about tokens: tokenizer, special ids, chat format.

#include <string>

#include "engine/models/config_fields.h"

namespace grokd {

/// `path`: config.json, whose fields `f` are. Throws ConfigError naming file and key.
void read_token_files(const Fields& f, const std::string& path, ModelConfig& config);

/// The built-in chat format whose markers a Jinja template has; "" if none.
std::string built_in_chat_format(const std::string& jinja);

}  // namespace grokd

#pragma once
// Reads a model while the server already answers.

#include <string>
#include <thread>

#include "service/server.h"

namespace grokd {

/// The format of chat prompts: the named one, else the model's own, else plain text. Throws ConfigError
/// naming the known ones.
api::ChatTemplate choose_chat_template(const std::string& name, const ModelConfig& config);

/// What identifies weights and numerics in answers: "grokd-<version>-<hash of the weights>-<backend>".
std::string fingerprint_of(const std::string& model_dir, const ModelConfig& config,
                           const RunnerOptions& options);

/// Loads config.model_dir into the server's host; on failure prints one line and stops the server with exit
/// code 1. The caller joins the thread or ends the process.
std::thread load_in_background(Server& server);

}  // namespace grokd

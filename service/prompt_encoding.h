#pragma once
// Prompts as token ids. Takes up to tens of milliseconds for long ones: for the worker pool.

#include <span>
#include <string_view>
#include <vector>

#include "api/chat_template.h"
#include "engine/models/config.h"
#include "engine/tokenizer.h"

namespace grokd {

/// A completion's text, as SentencePiece encodes it; after the beginning-of-sequence id where the model wants
/// one.
std::vector<TokenId> encode_text(std::string_view text, bool add_bos, const ModelConfig& config,
                                 const Tokenizer& tokenizer);

/// Messages in the template's format. Only the template places markers: text of messages never yields their
/// ids.
std::vector<TokenId> encode_chat(const api::ChatTemplate& format, std::span<const api::ChatMessage> messages,
                                 const api::ChatRendering& rendering, const ModelConfig& config,
                                 const Tokenizer& tokenizer);

}  // namespace grokd

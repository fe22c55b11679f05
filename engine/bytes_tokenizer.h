#pragma once
// For models without a vocabulary (synthetic weights): one token a byte, every other id a word made of its
// number.

#include "engine/tokenizer.h"

namespace grokd {

/// config.json says "tokenizer": "bytes". Ids 0-3 are control, 4-259 bytes, the rest read " w<id>".
inline constexpr std::string_view kBytesTokenizer = "bytes";

std::unique_ptr<Tokenizer> make_bytes_tokenizer(int vocab_size);

}  // namespace grokd

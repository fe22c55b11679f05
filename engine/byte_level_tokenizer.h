#pragma once
// Byte-pair encoding over bytes, after a text is cut into words: Llama-3's tokenizer.json and Grok-2's
// tokenizer.tok.json.

#include <memory>
#include <string>
#include <vector>

#include "engine/bpe_merges.h"
#include "engine/tokenizer.h"
#include "engine/word_splitter.h"

namespace grokd {

/// What such a file says.
struct ByteLevelModel {
  struct Token {
    std::string bytes, piece;  // piece: as the file writes it
    bool added = false;        // found as a whole inside a text, never by merging
    bool control = false;      // adds no text
  };
  std::vector<Token> tokens;  // by id
  std::vector<Merge> merges;  // symbols are ids
  bool whole_words = false;   // a word that is a token is not put together by merges
  WordPattern pattern;
};

std::unique_ptr<Tokenizer> make_byte_level_tokenizer(ByteLevelModel model);

/// A tokenizer.json of Hugging Face's library. Throws ConfigError naming the file and what is not supported.
ByteLevelModel read_tokenizer_json(const std::string& file);
/// Grok-2's tokenizer.tok.json. Throws ConfigError naming the file.
ByteLevelModel read_tok_json(const std::string& file);

}  // namespace grokd

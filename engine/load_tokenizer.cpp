#include "engine/byte_level_tokenizer.h"
#include "engine/bytes_tokenizer.h"
#include "engine/models/config.h"
#include "engine/tokenizer.h"

namespace grokd {
namespace {

/// By the end of its name.
std::unique_ptr<Tokenizer> open_file(const std::string& file) {
  if (file.ends_with(".tok.json")) return make_byte_level_tokenizer(read_tok_json(file));
  if (file.ends_with(".json")) return make_byte_level_tokenizer(read_tokenizer_json(file));
  return load_tokenizer(file);
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& model_dir, const ModelConfig& config) {
  if (config.tokenizer == kBytesTokenizer) return make_bytes_tokenizer(config.vocab_size);
  const std::string file = model_dir + "/" + config.tokenizer;
  auto tokenizer = open_file(file);
  if (tokenizer->vocab_size() > config.vocab_size) {
    throw ConfigError(file + ": has " + std::to_string(tokenizer->vocab_size()) +
                      " pieces, more than vocab_size " + std::to_string(config.vocab_size) + " of the model");
  }
  return tokenizer;
}

}  // namespace grokd

#include "engine/models/model.h"

#include <string>

#include "engine/models/decoder.h"

namespace grokd {

namespace {

constexpr Architecture kArchitectures[] = {
    {"grok-1", decoder_blocks, load_decoder},  {"grok-2", decoder_blocks, load_decoder},
    {"mixtral", decoder_blocks, load_decoder}, {"mistral", decoder_blocks, load_decoder},
    {"llama", decoder_blocks, load_decoder},
};

}  // namespace

const Architecture& find_architecture(std::string_view model_type) {
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (a.model_type == model_type) return a;
    known += (known.empty() ? "" : ", ") + std::string(a.model_type);
  }
  throw ConfigError("unknown model_type \"" + std::string(model_type) + "\"; known: " + known);
}

}  // namespace grokd

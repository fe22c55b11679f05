#include "engine/models/model.h"

#include <string>

#include "engine/models/grok1.h"

namespace grokd {

namespace {

constexpr Architecture kArchitectures[] = {
    {"grok-1", grok1_blocks, load_grok1},
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

#include "engine/models/model.h"

#include <string>

#include "engine/models/grok1.h"

namespace grokd {

namespace {

struct Architecture {
  std::string_view model_type;
  LoadModel load;
};

constexpr Architecture kArchitectures[] = {
    {"grok-1", load_grok1},
};

}  // namespace

LoadModel find_architecture(std::string_view model_type) {
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (a.model_type == model_type) return a.load;
    known += (known.empty() ? "" : ", ") + std::string(a.model_type);
  }
  throw ConfigError("unknown model_type \"" + std::string(model_type) + "\"; known: " + known);
}

}  // namespace grokd

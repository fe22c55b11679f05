#include "engine/engine.h"

namespace grokd {

SpecialTokens special_tokens(const ModelConfig& config) {
  return {config.pad_token, config.bos_token, config.eos_token, config.unk_token};
}

}  // namespace grokd

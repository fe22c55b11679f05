#pragma once
// Which tensors a model of a given configuration consists of.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/models/config.h"

namespace grokd {

struct TensorSpec {
  std::string path;
  std::vector<std::int64_t> weight;  // [in, out], experts first: [X, in, out]
  std::vector<std::int64_t> scales;  // [groups, out] or [X, groups, out]; empty for a plain f32 tensor
  bool quantized() const { return !scales.empty(); }
};

/// In the order of xAI's files: plain string order of the module names, so layer 10 comes before layer 2.
/// Throws ConfigError for an unknown config.model_type. Parts that the configuration leaves out (norms, router, a separate output embedding) have no row.
std::vector<TensorSpec> tensor_table(const ModelConfig& config);

/// "[8, 6144, 32768]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace grokd

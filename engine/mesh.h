#pragma once
// How devices are arranged: `data` replicas of a group of `model` ranks that share one copy of the weights.

#include <vector>

#include "engine/models/config.h"

namespace grokd {

struct Mesh {
  int data = 1, model = 1;
  int devices() const { return data * model; }
};

/// The sizes of the model axis that cut no scale group and no key-value head, smallest first.
std::vector<int> model_degrees(const ModelConfig& config);

/// Throws ConfigError naming the possible degrees.
void check_mesh(const ModelConfig& config, const Mesh& mesh);

}  // namespace grokd

#include "engine/mesh.h"

#include <algorithm>
#include <string>

namespace grokd {

std::vector<int> model_degrees(const ModelConfig& config) {
  std::vector<int> degrees;
  for (int n = 1; n <= config.scale_groups; n *= 2) {
    if (config.scale_groups % n == 0 && config.num_kv_heads % n == 0) degrees.push_back(n);
  }
  return degrees;
}

void check_mesh(const ModelConfig& config, const Mesh& mesh) {
  if (mesh.data < 1) throw ConfigError("data parallel " + std::to_string(mesh.data) + ": at least 1");
  const std::vector<int> degrees = model_degrees(config);
  if (std::find(degrees.begin(), degrees.end(), mesh.model) != degrees.end()) return;
  std::string possible;
  for (const int n : degrees) possible += (possible.empty() ? "" : ", ") + std::to_string(n);
  throw ConfigError("tensor parallel " + std::to_string(mesh.model) + " does not divide the " +
                    std::to_string(config.scale_groups) + " scale groups and " +
                    std::to_string(config.num_kv_heads) + " key-value heads of " + config.name +
                    "; possible: " + possible);
}

}  // namespace grokd

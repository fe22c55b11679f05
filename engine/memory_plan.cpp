#include "engine/memory_plan.h"

#include <cmath>
#include <fstream>
#include <string>

namespace grokd {

namespace {

/// Codes and f32 scales of the int8 matrices of one layer, apart from the experts.
std::size_t attention_bytes(const ModelConfig& c) {
  const std::size_t d = c.emb_size, q = std::size_t(c.num_q_heads) * c.key_size;
  const std::size_t kv = std::size_t(c.num_kv_heads) * c.key_size;
  return d * (q + 2 * kv) + q * d + 4 * (q + 2 * kv + c.scale_groups * d);
}

std::size_t expert_bytes(const ModelConfig& c) {
  const std::size_t d = c.emb_size, f = c.ffn_size;
  return 3 * d * f + 4 * (2 * f + c.scale_groups * d);
}

std::size_t float_bytes(const ModelConfig& c) { return 4 * std::size_t(c.emb_size) * (4 + c.num_experts); }

std::size_t head_bytes(const ModelConfig& c) { return std::size_t(c.vocab_size) * (2 * c.emb_size + 4); }

}  // namespace

std::size_t weight_bytes(const ModelConfig& c, int ranks) {
  const std::size_t sharded = c.num_layers * (attention_bytes(c) + c.num_experts * expert_bytes(c));
  const std::size_t embeddings = 4 * std::size_t(c.vocab_size) * c.emb_size;
  return sharded / ranks + c.num_layers * float_bytes(c) + embeddings + head_bytes(c);
}

std::size_t bytes_per_token(const ModelConfig& c) { return step_bytes(c, 1); }

std::size_t step_bytes(const ModelConfig& c, int tokens) {
  const double missed = std::pow(1.0 - double(c.num_selected_experts) / c.num_experts, tokens);
  const double met = c.num_experts * (1.0 - missed);
  const std::size_t experts = static_cast<std::size_t>(met * static_cast<double>(expert_bytes(c)));
  return c.num_layers * (attention_bytes(c) + experts + float_bytes(c)) + head_bytes(c);
}

std::size_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (std::size_t kib; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace grokd

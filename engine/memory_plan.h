#pragma once
// Bytes a model needs on each device of a mesh, known before anything is loaded.

#include <cstddef>
#include <vector>

#include "engine/mesh.h"
#include "engine/plan_model.h"
#include "kernels/backend.h"

namespace grokd {

struct PlanOptions {
  Mesh mesh;
  int context = 0;  // 0 = the model's own; otherwise at most that
  int max_sequences = 16;
  int max_batch_tokens = 256;
  int max_logit_rows = 0;          // 0 = max(max_sequences, 64)
  std::size_t kv_cache_bytes = 0;  // of all ranks of a group; 0 = room for max_sequences * context
  kernels::KvType kv_type = kernels::KvType::int16;
  int threads = 1;  // of one rank: each has scratch memory of its own
};

struct WeightPlan {
  std::size_t experts = 0;  // a dense MLP beside them too
  std::size_t attention = 0;
  std::size_t small = 0;  // norms and routers
  std::size_t embeddings = 0;
  std::size_t head = 0;  // the output embedding, of rank 0 only
  std::size_t total() const { return experts + attention + small + embeddings + head; }
};

struct RankPlan {
  WeightPlan weights;
  std::size_t kv = 0;              // with the ranges of an int8 cache
  std::size_t scratch = 0;         // activations, tables, logits, working memory of the kernels
  std::size_t communication = 0;   // what the other ranks' vectors are received in
  std::size_t read_per_token = 0;  // weight bytes that one token at batch 1 reads
  std::size_t page_ends = 0;  // what the CPU backend's huge pages take besides, behind the ends of blocks
  std::size_t total() const { return weights.total() + kv + scratch + communication; }
};

struct MemoryPlan {
  Mesh mesh;
  int context = 0;
  std::size_t kv_per_position = 0;  // bytes of all ranks of a group
  std::size_t sent_per_token = 0;   // bytes that a rank sends for one token
  std::size_t loading = 0;  // mapped pages that packing a checkpoint needs besides; a packed model needs none
  std::vector<RankPlan> ranks;      // of one replica; the others are the same
  std::size_t total() const;        // of all devices
  std::size_t on_cpu() const;       // the same with the ends of huge pages: what one machine must have
  const RankPlan& largest() const;  // rank 0 has the output embedding
};

/// Throws ConfigError for a mesh that does not divide the model.
MemoryPlan plan_memory(const PlanModel& model, const PlanOptions& options);

/// Memory for the weights of all ranks of a group on the CPU, ends of huge pages included.
std::size_t weight_bytes(const ModelConfig& config, int ranks = 1);

/// The same for one rank.
std::size_t weight_bytes(const ModelConfig& config, Shard shard);

/// Weight bytes that one token at batch 1 reads: all of attention, the chosen experts, routers, output
/// embedding.
std::size_t bytes_per_token(const ModelConfig& config);

/// Weight bytes that a step of `tokens` tokens reads when routing is even: each expert that is met is read
/// once.
std::size_t step_bytes(const ModelConfig& config, int tokens);

/// Memory that this machine could still give, from /proc/meminfo; 0 if unknown.
std::size_t available_memory_bytes();

}  // namespace grokd

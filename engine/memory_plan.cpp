#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>

#include "engine/kv_ranges.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/memory.h"

namespace grokd {

using kernels::CodeLayout;

namespace {

std::size_t size(int n) { return static_cast<std::size_t>(n); }

WeightPlan plan_weights(const std::vector<WeightBlock>& blocks) {
  WeightPlan plan;
  for (const WeightBlock& block : blocks) {
    const std::size_t bytes = block_bytes(block);
    switch (block.kind) {
      case BlockKind::head:
        plan.head += bytes;
        break;
      case BlockKind::expert:
        plan.experts += bytes;
        break;
      case BlockKind::floats:
        (block.layer < 0 && block.out > 1 ? plan.embeddings : plan.small) += bytes;
        break;
      default:
        plan.attention += bytes;
    }
  }
  return plan;
}

std::size_t page_ends(const std::vector<WeightBlock>& blocks) {
  std::size_t bytes = 0;
  for (const WeightBlock& block : blocks)
    bytes += kernels::memory_taken(block_bytes(block)) - block_bytes(block);
  return bytes;
}

/// Experts are read as often as `share` of them is met; everything else but the embedding table once.
std::size_t read_bytes(const std::vector<WeightBlock>& blocks, double share) {
  double bytes = 0;
  for (const WeightBlock& block : blocks) {
    const bool table = block.kind == BlockKind::floats && block.layer < 0 && block.out > 1;
    const bool routed = block.kind == BlockKind::expert && block.expert >= 0;
    if (!table) bytes += static_cast<double>(block_bytes(block)) * (routed ? share : 1.0);
  }
  return static_cast<std::size_t>(bytes);
}

double chosen_share(const ModelConfig& c) { return double(c.num_selected_experts) / c.num_experts; }

struct Sizes {
  const ModelConfig& c;
  const PlanOptions& options;
  Shard shard;
  int context;

  int rows() const {
    return options.max_logit_rows > 0 ? options.max_logit_rows : std::max(options.max_sequences, 64);
  }
  int heads() const { return c.num_q_heads / shard.ranks; }
  int kv_heads() const { return c.num_kv_heads / shard.ranks; }
  int groups() const { return c.scale_groups / shard.ranks; }
};

/// Codes of `rows` rows with their scales.
std::size_t code_rows(std::size_t rows, int cols, int groups) {
  return rows * (CodeLayout{cols, groups}.row_bytes() + sizeof(float) * size(groups));
}

std::size_t activation_bytes(const Sizes& s) {
  const std::size_t tokens = size(s.options.max_batch_tokens);
  const int attended = s.heads() * s.c.key_size;
  const int columns = 3 * s.c.emb_size + (s.heads() + 2 * s.kv_heads()) * s.c.key_size + attended +
                      2 * s.c.num_selected_experts;
  return tokens * sizeof(float) * size(columns) + code_rows(tokens, s.c.emb_size, 1) +
         code_rows(tokens * size(s.heads()), s.c.key_size, 1) + code_rows(tokens, attended, s.groups()) +
         code_rows(size(s.rows()), s.c.emb_size, 1);
}

std::size_t kernel_scratch(const Sizes& s) {
  return kernels::cpu_scratch_bytes({.tokens = s.options.max_batch_tokens,
                                     .logit_rows = s.rows(),
                                     .sequences = s.options.max_sequences,
                                     .width = s.c.emb_size,
                                     .heads = s.heads(),
                                     .kv_heads = s.kv_heads(),
                                     .head_size = s.c.key_size,
                                     .experts = s.c.num_experts,
                                     .per_token = s.c.num_selected_experts,
                                     .ffn = s.c.ffn_size / s.shard.ranks,
                                     .groups = s.groups(),
                                     .vocab = s.c.vocab_size,
                                     .positions = s.context},
                                    s.options.threads);
}

std::size_t scratch_bytes(const Sizes& s) {
  const std::size_t rope = sizeof(float) * size(s.context) * size(s.c.key_size);
  const std::size_t logits = s.shard.rank == 0 ? sizeof(float) * size(s.rows()) * size(s.c.vocab_size) : 0;
  return activation_bytes(s) + kernel_scratch(s) + rope + logits;
}

std::size_t page_bytes(const Sizes& s) {
  const kernels::PageLayout layout{s.kv_heads(), s.c.key_size, kernels::kv_code_bytes(s.options.kv_type)};
  return layout.page_bytes() * size(s.c.num_layers);
}

std::size_t kv_bytes(const Sizes& s) {
  const int longest = kernels::ceil_div(s.context, kernels::kPagePositions);
  std::size_t pages = size(s.options.max_sequences) * size(longest);
  if (s.options.kv_cache_bytes > 0) pages = s.options.kv_cache_bytes / (page_bytes(s) * size(s.shard.ranks));
  const bool ranges = s.options.kv_type == kernels::KvType::int8;
  return pages * page_bytes(s) + (ranges ? kv_range_bytes(s.c.num_layers, s.kv_heads(), s.c.key_size) : 0);
}

RankPlan plan_rank(const PlanModel& model, const Sizes& s) {
  const std::vector<WeightBlock> blocks = planned_blocks(model, s.shard);
  RankPlan plan;
  plan.weights = plan_weights(blocks);
  plan.page_ends = page_ends(blocks);
  plan.kv = kv_bytes(s);
  plan.scratch = scratch_bytes(s);
  if (s.shard.ranks > 1)
    plan.communication = sizeof(float) * size(s.options.max_batch_tokens) * size(s.c.emb_size);
  plan.read_per_token = read_bytes(blocks, chosen_share(s.c));
  return plan;
}

}  // namespace

std::size_t MemoryPlan::total() const {
  const std::size_t group =
      std::accumulate(ranks.begin(), ranks.end(), std::size_t{0},
                      [](std::size_t sum, const RankPlan& rank) { return sum + rank.total(); });
  return group * size(mesh.data);
}

std::size_t MemoryPlan::on_cpu() const {
  std::size_t ends = 0;
  for (const RankPlan& rank : ranks) ends += rank.page_ends;
  return total() + ends * size(mesh.data);
}

const RankPlan& MemoryPlan::largest() const { return ranks.front(); }

MemoryPlan plan_memory(const PlanModel& model, const PlanOptions& options) {
  const ModelConfig& c = model.config;
  check_mesh(c, options.mesh);
  MemoryPlan plan;
  plan.mesh = options.mesh;
  plan.context = options.context > 0 ? std::min(options.context, c.sequence_len) : c.sequence_len;
  const int ranks = options.mesh.model;
  for (int rank = 0; rank < ranks; ++rank) {
    plan.ranks.push_back(plan_rank(model, {c, options, {rank, ranks}, plan.context}));
  }
  plan.kv_per_position =
      page_bytes({c, options, {0, ranks}, plan.context}) * size(ranks) / size(kernels::kPagePositions);
  // Two sums a layer; a rank sends its part of the vector to the others, then their sum of its own share.
  if (ranks > 1)
    plan.sent_per_token =
        4 * sizeof(float) * size(c.num_layers) * size(c.emb_size) * size(ranks - 1) / size(ranks);
  plan.loading =
      size(options.threads) * 3 * size(c.emb_size) * size(c.ffn_size);  // threads x ranks x a slice
  return plan;
}

std::size_t weight_bytes(const ModelConfig& c, int ranks) {
  std::size_t bytes = 0;
  for (int rank = 0; rank < ranks; ++rank) bytes += weight_bytes(c, Shard{rank, ranks});
  return bytes;
}

std::size_t weight_bytes(const ModelConfig& c, Shard shard) {
  const auto blocks = planned_blocks(plan_model(c), shard);
  return plan_weights(blocks).total() + page_ends(blocks);
}

std::size_t bytes_per_token(const ModelConfig& c) { return step_bytes(c, 1); }

std::size_t step_bytes(const ModelConfig& c, int tokens) {
  return read_bytes(planned_blocks(plan_model(c), {}), 1.0 - std::pow(1.0 - chosen_share(c), tokens));
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

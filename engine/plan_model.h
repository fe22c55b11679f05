#pragma once
// Models whose memory can be planned: those that can be loaded, and others whose shapes are known.

#include <string>
#include <string_view>
#include <vector>

#include "engine/models/config.h"
#include "engine/models/weight_block.h"

namespace grokd {

struct PlanModel {
  ModelConfig config;
  int dense_ffn = 0;         // inner width of a dense MLP beside the experts, 0 = none
  bool double_norms = true;  // norms after attention and experts too
  bool can_load = true;
};

/// A configuration that can be loaded.
PlanModel plan_model(const ModelConfig& config);

/// "grok-1", "medium", "small", "demo"; shapes only: "grok-2", "mixtral-8x7b". Throws ConfigError listing the
/// known names.
PlanModel plan_preset(std::string_view name);

/// The weights of one rank; what has no place in this program's models yet is packed as theirs are.
std::vector<WeightBlock> planned_blocks(const PlanModel& model, Shard shard);

}  // namespace grokd

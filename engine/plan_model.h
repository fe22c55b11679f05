#pragma once
// Models whose memory can be planned by name: presets, and published ones by their shapes.

#include <string>
#include <string_view>
#include <vector>

#include "engine/models/config.h"
#include "engine/models/weight_block.h"

namespace grokd {

struct PlanModel {
  ModelConfig config;
};

PlanModel plan_model(const ModelConfig& config);

/// "grok-1", "medium", "small", "demo", "grok-2", "mixtral-8x7b". Throws ConfigError listing the
/// known names.
PlanModel plan_preset(std::string_view name);

/// The weights of one rank.
std::vector<WeightBlock> planned_blocks(const PlanModel& model, Shard shard);

}  // namespace grokd

#pragma once
// Before anything is loaded, the processes of a group compare what they are about to run.

#include <string>
#include <utility>
#include <vector>

#include "engine/model_runner.h"
#include "engine/rank_model.h"

namespace grokd {

/// What must be the same on all ranks, by the names a refusal uses.
using RankFacts = std::vector<std::pair<std::string, std::string>>;

RankFacts rank_facts(const ModelSource& source, const RunnerOptions& options);

std::string facts_text(const RankFacts& facts);
/// Why a rank with this text cannot join rank 0; "" when it can.
std::string difference(const RankFacts& leader, const std::string& follower_text, int follower);

/// On every rank of options.processes. Throws ConfigError on all of them when one differs.
void shake_hands(const ModelSource& source, const RunnerOptions& options);

}  // namespace grokd

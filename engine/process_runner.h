#pragma once
// A model whose ranks are processes: rank 0 serves and tells the others each step's plan, they follow.

#include <memory>
#include <string>

#include "engine/model_runner.h"
#include "engine/rank_model.h"

namespace grokd {

/// Rank 0 of options.processes. Returns when all ranks have loaded. Throws as load_model does.
std::unique_ptr<ModelRunner> lead_processes(const ModelSource& source, RunnerOptions options,
                                            const ProgressSink& progress);

/// Every other rank: until rank 0 says that this is the end.
void follow_process(const ModelSource& source, RunnerOptions options);

}  // namespace grokd

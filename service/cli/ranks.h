#pragma once
// Commands that run as one of several processes that share a model.

#include <chrono>
#include <memory>

#include "engine/model_runner.h"

namespace grokd::cli {

/// Joins what mpirun launched; null for a process launched alone. Call it before there are other threads.
/// What is not rank 0 ignores SIGTERM and SIGINT from now on: rank 0 says when the end has come.
std::shared_ptr<kernels::ProcessGroup> join_ranks(std::chrono::milliseconds timeout);

/// True for ranks other than 0: they follow.
bool follows(const RunnerOptions& options);

}  // namespace grokd::cli

#include "service/cli/ranks.h"

#include <csignal>

namespace grokd::cli {

std::shared_ptr<kernels::ProcessGroup> join_ranks(std::chrono::milliseconds timeout) {
  std::shared_ptr<kernels::ProcessGroup> group = kernels::join_process_group(timeout);
  if (group && group->rank() != 0) {
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
  }
  return group;
}

bool follows(const RunnerOptions& options) { return options.processes && options.processes->rank() != 0; }

}  // namespace grokd::cli

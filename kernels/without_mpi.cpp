// Stands in for kernels/mpi in a program that is built without Open MPI.
#include <stdexcept>

#include "kernels/process_group.h"

namespace grokd::kernels {

std::unique_ptr<ProcessGroup> join_process_group(std::chrono::milliseconds) {
  if (launched_processes() == 1) return nullptr;
  throw std::runtime_error("launched as one of " + std::to_string(launched_processes()) +
                           " processes, but built without GROKD_MPI");
}

}  // namespace grokd::kernels

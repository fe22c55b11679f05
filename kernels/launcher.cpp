// What Open MPI's launcher tells its processes through the environment.
#include <cstdlib>

#include "kernels/process_group.h"

namespace grokd::kernels {
namespace {

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

std::chrono::milliseconds launcher_grace() {
  return std::chrono::seconds(number("OMPI_MCA_odls_base_sigkill_timeout", 1));
}

int launched_processes() { return number("OMPI_COMM_WORLD_SIZE", 1); }

}  // namespace grokd::kernels

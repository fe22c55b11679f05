// For builds without CUDA.

#include <stdexcept>

#include "kernels/backend.h"

namespace grokd::kernels {

std::string cuda_unavailable() { return "this build has no CUDA backend"; }

std::size_t cuda_free_bytes(const CudaOptions&) { return 0; }

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) {
  throw std::invalid_argument(cuda_unavailable());
}

std::unique_ptr<RankGroup> make_cuda_group(const CudaOptions&, int) {
  throw std::invalid_argument(cuda_unavailable());
}

}  // namespace grokd::kernels

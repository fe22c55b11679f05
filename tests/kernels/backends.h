#pragma once
// The backends that every op test runs on. A new backend is one more line here.

#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/backend.h"

namespace grokd::test {

using Backends = std::vector<std::unique_ptr<kernels::Backend>>;

/// All but the reference: the CPU backend for every instruction set this machine has; in the program of
/// tests/cuda_emulation the CUDA backend alone.
inline Backends fast_backends() {
  Backends backends;
#ifdef GROKD_TEST_CUDA
  backends.push_back(kernels::make_cuda_backend({}));
#else
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    try {
      backends.push_back(kernels::make_cpu_backend({3, isa, true}));
    } catch (const std::invalid_argument&) {  // this machine lacks it
    }
  }
#endif
  return backends;
}

inline Backends all_backends() {
  Backends backends = fast_backends();
  backends.insert(backends.begin(), kernels::make_reference_backend());
  return backends;
}

}  // namespace grokd::test

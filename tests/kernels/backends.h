#pragma once
// The backends that every op test runs on. A new backend is one more line here.

#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace grokd::test {

inline std::vector<std::unique_ptr<kernels::Backend>> all_backends() {
  std::vector<std::unique_ptr<kernels::Backend>> backends;
  backends.push_back(kernels::make_reference_backend());
  return backends;
}

}  // namespace grokd::test

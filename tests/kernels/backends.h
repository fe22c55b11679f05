#pragma once
// The backends that every op test runs on. A new backend is one more line here.

#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace grokd::test {

using Backends = std::vector<std::unique_ptr<kernels::Backend>>;

/// All but the reference.
inline Backends fast_backends() {
  Backends backends;
  return backends;
}

inline Backends all_backends() {
  Backends backends = fast_backends();
  backends.insert(backends.begin(), kernels::make_reference_backend());
  return backends;
}

}  // namespace grokd::test

#pragma once
// One run of an op on every backend, compared with the reference.

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/backends.h"
#include "tests/support/device_arrays.h"

namespace grokd::test {

/// Everything an op wrote, in any order that is always the same.
struct Outcome {
  std::vector<float> floats;
  std::vector<std::int32_t> integers;

  void add(const std::vector<float>& values) { floats.insert(floats.end(), values.begin(), values.end()); }
  template <class T>
  void add(const std::vector<T>& values) {
    integers.insert(integers.end(), values.begin(), values.end());
  }
  void add(const HostCodes& rows) {
    add(rows.codes);
    add(rows.scales);
  }
};

/// Kept for one test case, so that threads are started once.
class Comparison {
 public:
  explicit Comparison(const kernels::StepLimits& limits) {
    for (const auto& backend : fast_) backend->reserve(limits);
    reference_->reserve(limits);
  }

  /// `run(Backend&)` returns an Outcome.
  template <class Run>
  void check(Run run) {
    const Outcome expected = run(*reference_);
    for (const auto& backend : fast_) {
      CAPTURE(backend->name());
      const Outcome actual = run(*backend);
      CHECK(first_difference(actual.floats, expected.floats) == "");
      CHECK(first_difference(actual.integers, expected.integers) == "");
    }
  }

 private:
  std::unique_ptr<kernels::Backend> reference_ = kernels::make_reference_backend();
  Backends fast_ = fast_backends();
};

}  // namespace grokd::test

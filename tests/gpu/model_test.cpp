// Whole models on the machine's GPUs: the CPU's bits, alone and over all devices.

#include <doctest/doctest.h>

#include "tests/support/answer_bits.h"

namespace grokd::test {
namespace {

RunnerOptions on(const std::string& backend, int ranks) {
  RunnerOptions options;
  options.backend = backend;
  options.tensor_parallel = ranks;
  return options;
}

void check_model(const std::string& dir) {
  CAPTURE(dir);
  const auto expected = answer_bits(dir, on("cpu", 1));
  CHECK(answer_bits(dir, on("cuda", 1)) == expected);
  for (const int ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    try {
      CHECK(answer_bits(dir, on("cuda", ranks)) == expected);
    } catch (const ConfigError& error) {
      MESSAGE("not run: " << error.what());  // too few devices, or heads that do not divide
    }
  }
}

}  // namespace

TEST_CASE(
    "the golden models and the demo model give the CPU's bits on the device, for every rank count that "
    "fits") {
  check_model(GROKD_CHECKPOINT_DIR "/tiny-a");
  check_model(GROKD_CHECKPOINT_DIR "/tiny-b");
  check_model(GROKD_DEMO_MODEL);
}

}  // namespace grokd::test

// Whole models on the CUDA backend over emulated devices: the CPU's bits.

#include <doctest/doctest.h>

#include "tests/cuda_emulation/runtime.h"
#include "tests/support/answer_bits.h"

namespace grokd::test {
namespace {

const char* const kTinyA = GROKD_CHECKPOINT_DIR "/tiny-a";

RunnerOptions on(const std::string& backend, int ranks = 1) {
  RunnerOptions options;
  options.backend = backend;
  options.tensor_parallel = ranks;
  return options;
}

}  // namespace

TEST_CASE("tiny-a gives the CPU's bits on one device and on two") {
  const auto expected = answer_bits(kTinyA, on("cpu"));
  CHECK(expected.size() == (kAnswer + 1) * (kTop + 1));
  CHECK(answer_bits(kTinyA, on("cuda")) == expected);
  CHECK(answer_bits(kTinyA, on("cuda", 2)) == expected);
}

TEST_CASE("single steps run as recorded graphs, chunks of prompts do not") {
  const long before = cuda_emulation::graph_launches();
  answer_bits(kTinyA, on("cuda"));
  const long launches = cuda_emulation::graph_launches() - before;
  CHECK(launches >= kAnswer);
  CHECK(launches <= kAnswer + 2);
}

TEST_CASE("auto takes a device where there is one, and an unknown name is refused") {
  CHECK(choose_backend("auto").backend == "cuda");
  CHECK(choose_backend("auto").missing.empty());
  CHECK_THROWS_AS(choose_backend("gpu"), ConfigError);
}

TEST_CASE("a model that is too large for the device is refused when it is loaded") {
  cuda_emulation::limit_memory(100'000);
  CHECK_THROWS_AS(load_model(kTinyA, load_model_config(kTinyA), on("cuda"), {}), ConfigError);
  cuda_emulation::limit_memory(0);
}

}  // namespace grokd::test

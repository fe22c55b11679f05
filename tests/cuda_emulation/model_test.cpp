// Whole models on the CUDA backend over emulated devices: the CPU's bits.

#include <doctest/doctest.h>

#include "kernels/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/support/answer_bits.h"
#include "tests/support/device_arrays.h"

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

TEST_CASE("a barrier that is missing in the norm, the router or the sampler is found as a race") {
  using kernels::Backend;
  constexpr int kWidth = 300, kExperts = 8;
  const auto backend = kernels::make_cuda_backend({});
  std::vector<float> values(kWidth * kExperts);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101) * 0.01f;
  const DeviceMatrix<float> x(*backend, values, 1, kWidth), w(*backend, values, kWidth, kExperts);
  const DeviceMatrix<std::int32_t> expert(*backend, 1, 2);
  const DeviceMatrix<float> gate(*backend, 1, 2);
  const auto codes = backend->allocate_quantised(1, kWidth, 1);
  const auto norm = [&] { backend->norm_quantise(x.view(), {}, w.data(), 1e-5f, {}, codes.view(1)); };
  const auto route = [&] {
    backend->route(x.view(), w.view(), 0, false, {expert.data(), gate.data(), 1, 2});
  };
  const auto sample = [&] {
    kernels::SamplingRow row;
    row.top_p = 0.5;
    kernels::SampledToken token;
    backend->sample(x.view(), {&row, 1}, {&token, 1});
  };
  cuda_emulation::Machine& machine = cuda_emulation::Machine::current();
  for (const std::function<void()>& op : std::vector<std::function<void()>>{norm, route, sample}) {
    CHECK_NOTHROW(op());
    const int barriers = machine.barriers();
    int races = 0;
    for (int left_out = 0; left_out < barriers; ++left_out) {
      machine.leave_out_barrier(left_out);
      try {
        op();
      } catch (const cuda_emulation::KernelFault&) {
        ++races;
      }
    }
    machine.leave_out_barrier(-1);
    CAPTURE(barriers);
    CHECK(barriers >= 5);
    CHECK(2 * races >= barriers);  // the others keep memory that one pass reads from the next that writes it
    CHECK_NOTHROW(op());
  }
}

TEST_CASE("auto takes a device where there is one, and an unknown name is refused") {
  CHECK(choose_backend("auto").backend == "cuda");
  CHECK(choose_backend("auto").missing.empty());
  CHECK_THROWS_AS(choose_backend("gpu"), ConfigError);
}

TEST_CASE("a model that is too large for the device is refused when it is loaded") {
  cuda_emulation::limit_memory(100'000);
  CHECK_THROWS_WITH_AS(load_model(kTinyA, load_model_config(kTinyA), on("cuda"), {}),
                       doctest::Contains("the CUDA devices have 1 MiB free"), ConfigError);
  cuda_emulation::limit_memory(0);
}

}  // namespace grokd::test

// What is particular to the CPU backend: its options, and steps that take no memory.

#include <atomic>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "kernels/rope_table.h"
#include "tests/kernels/backends.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/hard_inputs.h"
#include "tests/support/count_allocations.h"

namespace grokd::test {
namespace {

using kernels::Backend;

constexpr int kWidth = 128, kHeads = 4, kKvHeads = 2, kHeadSize = 32, kExperts = 8, kPerToken = 2, kFfn = 256,
              kGroups = 4, kVocab = 200, kPositions = 192, kTokens = 24;
constexpr int kWide = (kHeads + 2 * kKvHeads) * kHeadSize;

/// Pages of address space this process has mapped.
long mapped_pages() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

struct HostMatrix {
  HostMatrix(int in, int out)
      : weights(hard_weights(1, static_cast<std::size_t>(in * out))),
        scales(positive_scales(2, static_cast<std::size_t>(out))),
        source{{weights.data(), in, out}, {scales.data(), 1, out}} {}
  std::vector<std::int8_t> weights;
  std::vector<float> scales;
  kernels::LinearSource source;
};

/// One layer and the logits, every op once.
class LayerStep {
 public:
  explicit LayerStep(Backend& backend)
      : backend_(backend),
        qkv_(pack(kWidth, kWide, 1)),
        out_(pack(kHeads * kHeadSize, kWidth, kGroups)),
        experts_(pack_experts()),
        head_(backend.pack_head({table_.data(), kVocab, kWidth})),
        rope_(kernels::make_rope_table(backend, 10000, kHeadSize, kPositions)),
        cache_(backend.allocate(backend.kv_page_bytes(kKvHeads, kHeadSize) * 3)),
        x_(backend.allocate_quantised(kTokens, kWidth, 1)),
        q_(backend.allocate_quantised(kTokens * kHeads, kHeadSize, 1)),
        o_(backend.allocate_quantised(kTokens, kHeads * kHeadSize, kGroups)) {}

  void run() {
    const kernels::SequenceRows sequence{0, kTokens, 100, pages_};
    const kernels::KvLayer kv{cache_.data(), backend_.kv_page_bytes(kKvHeads, kHeadSize), kKvHeads,
                              kHeadSize};
    const kernels::ExpertChoice choice{chosen_.data(), gates_.data(), kTokens, kPerToken};
    backend_.embed(ids_, {table_.data(), kVocab, kWidth}, 2, h_.view());
    backend_.norm_quantise(h_.view(), {}, gain_.data(), 1e-5f, normed_.view(), x_.view(kTokens));
    backend_.linear(x_.view(kTokens), qkv_, wide_.view());
    backend_.rope_store(wide_.view(), {&sequence, 1}, rope_, kv, kHeads, q_.view(kTokens * kHeads));
    for (const float cap : {0.0f, 30.0f}) {
      backend_.attention(q_.view(kTokens * kHeads), {&sequence, 1}, kv, {kHeads, 0.1f, cap, 0},
                         attended_.view());
    }
    backend_.quantise(attended_.view(), o_.view(kTokens));
    backend_.linear(o_.view(kTokens), out_, y_.view());
    backend_.residual_norm_quantise(y_.view(), gain_.data(), h_.view(), gain_.data(), 1e-5f, normed_.view(),
                                    x_.view(kTokens));
    backend_.route(normed_.view(), {router_.data(), kWidth, kExperts}, 0, false, choice);
    backend_.experts(x_.view(kTokens), choice, experts_, y_.view());
    backend_.residual_norm(y_.view(), gain_.data(), 1e-5f, h_.view());
    backend_.norm_quantise(h_.view(), last_, gain_.data(), 1e-5f, {}, x_.view(1));
    backend_.logits(x_.view(1), head_, 0.5f, 20, logits_.view());
    backend_.sample(logits_.view(), {&row_, 1}, {&sampled_, 1});
  }

 private:
  kernels::LinearWeights pack(int in, int out, int groups) {
    const HostMatrix matrix(in, out);
    return backend_.pack_linear({&matrix.source, 1}, groups);
  }
  kernels::ExpertWeights pack_experts() {
    const HostMatrix in(kWidth, kFfn), out(kFfn, kWidth);
    const std::vector<kernels::ExpertSource> experts(kExperts, {in.source, in.source, out.source});
    return backend_.pack_experts(experts, kGroups);
  }

  Backend& backend_;
  DeviceMatrix<float> table_{backend_, hard_floats(3, kVocab* kWidth), kVocab, kWidth};
  DeviceMatrix<float> gain_{backend_, hard_floats(4, kWidth), 1, kWidth};
  DeviceMatrix<float> router_{backend_, hard_floats(5, kWidth* kExperts), kWidth, kExperts};
  kernels::LinearWeights qkv_, out_;
  kernels::ExpertWeights experts_;
  kernels::HeadWeights head_;
  kernels::RopeTable rope_;
  kernels::Buffer cache_;
  kernels::QuantisedBuffer x_, q_, o_;
  DeviceMatrix<float> h_{backend_, kTokens, kWidth}, normed_{backend_, kTokens, kWidth};
  DeviceMatrix<float> y_{backend_, kTokens, kWidth}, wide_{backend_, kTokens, kWide};
  DeviceMatrix<float> attended_{backend_, kTokens, kHeads*kHeadSize}, logits_{backend_, 1, kVocab};
  DeviceMatrix<std::int32_t> chosen_{backend_, kTokens, kPerToken};
  DeviceMatrix<float> gates_{backend_, kTokens, kPerToken};
  std::vector<std::int32_t> pages_{0, 1, 2}, last_{kTokens - 1};
  std::vector<kernels::TokenId> ids_ = std::vector<kernels::TokenId>(kTokens, 5);
  std::vector<kernels::TokenLogprob> top_ = std::vector<kernels::TokenLogprob>(5);
  kernels::SamplingRow row_ = [] {
    kernels::SamplingRow row;
    row.temperature = 0.8, row.top_p = 0.9, row.top_k = 50, row.min_p = 0.01;
    return row;
  }();
  kernels::SampledToken sampled_ = [this] {
    kernels::SampledToken token;
    token.top = top_;
    return token;
  }();
};

kernels::StepLimits limits() {
  return {kTokens,  1,         1,    kWidth,  kHeads, kKvHeads,  kHeadSize,
          kExperts, kPerToken, kFfn, kGroups, kVocab, kPositions};
}

}  // namespace

TEST_CASE("after reserve no op of a step takes memory, not even the first time") {
  for (const auto& backend : fast_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits());
    LayerStep step(*backend);
    const long pages = mapped_pages(), news = test::allocations;
    step.run();
    step.run();
    CHECK(test::allocations == news);
    CHECK(mapped_pages() == pages);
  }
}

TEST_CASE("an instruction set that does not exist is refused by name") {
  CHECK_THROWS_WITH_AS(kernels::make_cpu_backend({1, "avx1024"}),
                       "unknown instruction set 'avx1024' (scalar, avx2 or avx512)", std::invalid_argument);
}

TEST_CASE("a negative number of threads is refused") {
  CHECK_THROWS_AS(kernels::make_cpu_backend({-1, "scalar"}), std::invalid_argument);
}

TEST_CASE("more threads than cores are refused unless forced") {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  CHECK_THROWS_AS(kernels::make_cpu_backend({cores + 1, "scalar"}), std::invalid_argument);
  CHECK(kernels::make_cpu_backend({cores + 1, "scalar", true})->name() == "cpu-scalar");
}

TEST_CASE("the backend's name tells the instruction set") {
  CHECK(kernels::make_cpu_backend({1, "scalar"})->name() == "cpu-scalar");
}

}  // namespace grokd::test

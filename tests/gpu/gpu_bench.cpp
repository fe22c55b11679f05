// Steps of one tensor-parallel shard of Grok-1 (an eighth) with random weights: as many layers as fit, up
// to 64. Prints one line a run beside the bandwidth of a copy on the same device.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/backend.h"

namespace {

using grokd::kernels::Backend;
using grokd::kernels::Buffer;
using grokd::kernels::MatrixView;

constexpr int kWidth = 6144, kHeads = 6, kKvHeads = 1, kHeadSize = 128, kExperts = 8, kPerToken = 2,
              kFfn = 4096;
constexpr int kMostLayers = 64, kMostTokens = 512, kContext = 1024, kMostRows = 16, kRepeats = 21;
constexpr float kEps = 1e-5f, kCap = 30, kMultiplier = 0.08838835f;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Bytes read and written a second by a copy within the device.
double copy_rate() {
  const std::size_t bytes = std::size_t{2} << 30;
  void *from = nullptr, *to = nullptr;
  if (cudaMalloc(&from, bytes) != cudaSuccess || cudaMalloc(&to, bytes) != cudaSuccess) return 0;
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    cudaDeviceSynchronize();
    const double start = seconds_now();
    cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
    cudaDeviceSynchronize();
    best = std::max(best, 2.0 * static_cast<double>(bytes) / (seconds_now() - start));
  }
  cudaFree(from);
  cudaFree(to);
  return best;
}

struct Layer {
  grokd::kernels::LinearWeights qkv, out;
  grokd::kernels::ExpertWeights experts;
  Buffer kv;
};

class ShardModel {
 public:
  explicit ShardModel(Backend& backend) : backend_(backend) {
    take_activations();
    take_weights();
  }

  int layers() const { return static_cast<int>(layers_.size()); }
  /// Weights that a step reads when `experts` of the eight are wanted.
  double bytes(int experts) const {
    const Layer& layer = layers_.front();
    const double each = static_cast<double>(layer.qkv.data.bytes() + layer.out.data.bytes()) +
                        experts * static_cast<double>(layer.experts.data[0].bytes());
    return each * layers();
  }

  /// Seconds of a step of `sequences` of `rows` tokens each: the middle one of several, and the 99th in a
  /// hundred.
  void run(int sequences, int rows, int position) {
    std::vector<std::vector<std::int32_t>> pages;
    std::vector<grokd::kernels::SequenceRows> batch;
    for (int s = 0; s < sequences; ++s) {
      pages.emplace_back();
      for (int p = 0; p < kContext / 64; ++p) pages.back().push_back(s * (kContext / 64) + p);
      batch.push_back({s * rows, rows, position, pages.back()});
    }
    tokens_ = sequences * rows;
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens_), 1);
    std::vector<double> times;
    for (int i = 0; i < kRepeats; ++i) {
      const double start = seconds_now();
      backend_.run_step({ids, batch, {}}, [&] { step(batch); });
      float wait = 0;
      backend_.download(&wait, h_.data(), sizeof(wait));
      if (i > 1) times.push_back(seconds_now() - start);
    }
    std::sort(times.begin(), times.end());
    report(sequences, rows, times);
  }

  double copy = 0;

 private:
  MatrixView<float> view(const Buffer& buffer, int cols) const { return {buffer.as<float>(), tokens_, cols}; }

  void step(const std::vector<grokd::kernels::SequenceRows>& batch) {
    const float* gain = gain_.as<float>();
    const MatrixView<float> h = view(h_, kWidth), y = view(y_, kWidth), normed = view(normed_, kWidth);
    const grokd::kernels::ExpertChoice choice{expert_.as<std::int32_t>(), gate_.as<float>(), tokens_,
                                              kPerToken};
    const auto x = x_.view(tokens_);
    backend_.norm_quantise(h, {}, gain, kEps, {}, x);
    for (const Layer& layer : layers_) {
      const grokd::kernels::KvLayer kv{layer.kv.data(), backend_.kv_page_bytes(kKvHeads, kHeadSize), kKvHeads,
                                       kHeadSize};
      const MatrixView<float> qkv = view(qkv_, (kHeads + 2 * kKvHeads) * kHeadSize);
      backend_.linear(x, layer.qkv, qkv);
      backend_.rope_store(qkv, batch, rope_, kv, kHeads, q_.view(tokens_ * kHeads));
      backend_.attention(q_.view(tokens_ * kHeads), batch, kv, {kHeads, kMultiplier, kCap, 0},
                         view(attended_, kHeads * kHeadSize));
      backend_.quantise(view(attended_, kHeads * kHeadSize), o_.view(tokens_));
      backend_.linear(o_.view(tokens_), layer.out, y);
      backend_.residual_norm_quantise(y, gain, h, gain, kEps, normed, x);
      backend_.route(normed, {router_.as<float>(), kWidth, kExperts}, 0, false, choice);
      backend_.experts(x, choice, layer.experts, y);
      backend_.residual_norm_quantise(y, gain, h, gain, kEps, {}, x);
    }
  }

  void report(int sequences, int rows, const std::vector<double>& times) {
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(tokens_) * kPerToken);
    backend_.download(chosen.data(), expert_.data(), chosen.size() * sizeof(std::int32_t));
    std::sort(chosen.begin(), chosen.end());
    const int distinct = static_cast<int>(std::unique(chosen.begin(), chosen.end()) - chosen.begin());
    const double middle = times[times.size() / 2], rate = bytes(distinct) / middle;
    const double products = static_cast<double>(tokens_) * bytes(kPerToken);
    std::printf("%9d %5d %8d %9.3f %9.3f %9.0f %7.0f%% %9.1f\n", sequences, rows, distinct, middle * 1e3,
                times.back() * 1e3, rate * 1e-9, 100 * rate / copy, 2 * products / middle * 1e-12);
  }

  void take_activations() {
    const auto floats = [&](std::size_t count) { return backend_.allocate(count * sizeof(float)); };
    const std::size_t t = kMostTokens;
    h_ = floats(t * kWidth), y_ = floats(t * kWidth), normed_ = floats(t * kWidth);
    qkv_ = floats(t * (kHeads + 2 * kKvHeads) * kHeadSize), attended_ = floats(t * kHeads * kHeadSize);
    expert_ = floats(t * kPerToken), gate_ = floats(t * kPerToken);
    x_ = backend_.allocate_quantised(kMostTokens, kWidth, 1);
    q_ = backend_.allocate_quantised(kMostTokens * kHeads, kHeadSize, 1);
    o_ = backend_.allocate_quantised(kMostTokens, kHeads * kHeadSize, 1);
    rope_.cos = floats(kContext * kHeadSize / 2), rope_.sin = floats(kContext * kHeadSize / 2);
    rope_.positions = kContext, rope_.half = kHeadSize / 2;
    gain_ = noise(kWidth), router_ = noise(kWidth * kExperts);
    h_ = noise(t * kWidth);
    backend_.reserve({.tokens = kMostTokens,
                      .logit_rows = 1,
                      .sequences = kMostRows,
                      .width = kWidth,
                      .heads = kHeads,
                      .kv_heads = kKvHeads,
                      .head_size = kHeadSize,
                      .experts = kExperts,
                      .per_token = kPerToken,
                      .ffn = kFfn,
                      .groups = 1,
                      .vocab = 1,
                      .positions = kContext});
  }

  Buffer noise(std::size_t count) {
    std::mt19937 random(1);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random() % 2001) * 1e-3f - 1;
    Buffer buffer = backend_.allocate(count * sizeof(float));
    backend_.upload(buffer.data(), values.data(), count * sizeof(float));
    return buffer;
  }

  Buffer copy_of(const Buffer& buffer, std::vector<std::byte>& host) {
    host.resize(buffer.bytes());
    backend_.download(host.data(), buffer.data(), buffer.bytes());
    Buffer other = backend_.allocate(buffer.bytes());
    backend_.upload(other.data(), host.data(), buffer.bytes());
    return other;
  }

  /// One matrix of each kind is packed; the others are copies, in memory of their own.
  void take_weights() {
    std::mt19937 random(2);
    std::vector<std::int8_t> weights(static_cast<std::size_t>(kWidth) * kFfn);
    for (auto& weight : weights) weight = static_cast<std::int8_t>(random());
    const std::vector<float> scales(kWidth, 1e-4f);
    const auto source = [&](int in, int out) {
      return grokd::kernels::LinearSource{{weights.data(), in, out}, {scales.data(), 1, out}};
    };
    const auto qkv = source(kWidth, (kHeads + 2 * kKvHeads) * kHeadSize),
               out = source(kHeads * kHeadSize, kWidth);
    const grokd::kernels::ExpertSource expert{source(kWidth, kFfn), source(kWidth, kFfn),
                                              source(kFfn, kWidth)};
    const auto packed = backend_.pack_experts({&expert, 1}, 1);
    std::vector<std::byte> host;
    const std::size_t page = backend_.kv_page_bytes(kKvHeads, kHeadSize);
    try {
      while (layers() < kMostLayers) {
        Layer layer{backend_.pack_linear({&qkv, 1}, 1),
                    backend_.pack_linear({&out, 1}, 1),
                    {kExperts, kWidth, kFfn, 1, {}},
                    backend_.allocate(page * kMostRows * kContext / 64)};
        for (int e = 0; e < kExperts; ++e) layer.experts.data.push_back(copy_of(packed.data[0], host));
        layers_.push_back(std::move(layer));
      }
    } catch (const std::bad_alloc&) {            // as many as fit
      if (!layers_.empty()) layers_.pop_back();  // room for what the driver needs
    }
  }

  Backend& backend_;
  std::vector<Layer> layers_;
  Buffer h_, y_, normed_, qkv_, attended_, expert_, gate_, gain_, router_;
  grokd::kernels::QuantisedBuffer x_, q_, o_;
  grokd::kernels::RopeTable rope_;
  int tokens_ = 0;
};

}  // namespace

int main() {
  if (const std::string missing = grokd::kernels::cuda_unavailable(); !missing.empty()) {
    std::fprintf(stderr, "gpu_bench: %s\n", missing.c_str());
    return 1;
  }
  const double copy = copy_rate();
  const auto backend = grokd::kernels::make_cuda_backend({});
  ShardModel model(*backend);
  model.copy = copy;
  cudaDeviceProp device{};
  cudaGetDeviceProperties(&device, 0);
  std::printf("%s: a copy moves %.0f GB/s; an eighth of Grok-1, %d layers, %.2f GB a token\n", device.name,
              copy * 1e-9, model.layers(), model.bytes(kPerToken) * 1e-9);
  std::printf("%9s %5s %8s %9s %9s %9s %8s %9s\n", "sequences", "rows", "experts", "ms", "worst ms", "GB/s",
              "of copy", "TFLOP/s");
  for (const int sequences : {1, 2, 4, 8, 16}) model.run(sequences, 1, 512);
  for (const int rows : {128, 512}) model.run(1, rows, 0);
  return 0;
}

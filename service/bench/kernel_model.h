#pragma once
// A Grok-shaped model of random weights, run op by op without an engine.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "service/bench/machine.h"

namespace grokd::bench {

struct Shape {
  const char* name;
  int width, layers, heads, kv_heads, head_size, experts, per_token, ffn, groups, vocab;
};

enum Op { kNorms, kLinearIn, kRope, kAttention, kLinearOut, kRoute, kExperts, kLogits, kSample, kOpCount };
inline constexpr std::array<const char*, kOpCount> kOpNames = {
    "norms", "qkv", "rope", "attention", "out", "route", "experts", "logits", "sample"};

/// Seconds of each op and what a step read and multiplied.
struct StepReport {
  std::array<double, kOpCount> seconds{};
  double total = 0;
  double bytes = 0;  // of weights, each chosen expert once
  double macs = 0;   // of linear, experts and logits
};

class KernelModel {
 public:
  /// max_tokens: rows of the largest step; context: positions of each sequence.
  KernelModel(kernels::Backend& backend, const Shape& shape, int max_tokens, int context);

  /// `sequences` sequences of `rows` new tokens each, after `position` tokens.
  StepReport step(int sequences, int rows, int position);
  std::vector<Block> weight_blocks() const;

 private:
  struct Layer {
    kernels::LinearWeights qkv, out;
    kernels::ExpertWeights experts;
    kernels::Buffer router;
    kernels::KvLayer kv;
  };

  kernels::MatrixView<float> view(const kernels::Buffer& buffer, int rows, int cols) const;
  void run_layer(const Layer& layer, std::span<const kernels::SequenceRows> sequences, int tokens,
                 StepReport& report);
  void count_experts(const Layer& layer, int tokens, StepReport& report) const;

  kernels::Backend& backend_;
  Shape shape_;
  int pages_each_;
  std::vector<Layer> layers_;
  std::vector<kernels::Buffer> kv_memory_;
  kernels::HeadWeights head_;
  kernels::RopeTable rope_;
  kernels::Buffer table_, gain_, h_, normed_, wide_, attended_, projected_, logits_, expert_, gate_;
  kernels::QuantisedBuffer x_, q_, o_;
  std::vector<std::int32_t> pages_;
};

}  // namespace grokd::bench

#pragma once
// The executable definition of docs/numerics.md: plain loops in the order of the text, one file per group of
// ops. Everything is stored in plain row-major order. Unlike the other backends it takes small scratch memory
// in ops.

#include "kernels/backend.h"

namespace grokd::kernels::reference {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  Buffer allocate(std::size_t bytes) override;
  void upload(void* device, const void* host, std::size_t bytes) override;
  void download(void* host, const void* device, std::size_t bytes) override;
  void reserve(const StepLimits&) override {}

  LinearWeights pack_linear(std::span<const LinearSource> columns, int groups) override;
  ExpertWeights pack_experts(std::span<const ExpertSource> experts, int groups) override;
  HeadWeights pack_head(MatrixView<const float> embeddings) override;

  std::size_t code_bytes(int rows, int cols, int groups) const override;
  void read_codes(const Quantised& x, std::int16_t* codes) override;

  std::size_t kv_page_bytes(int kv_heads, int head_size, KvType type) const override;
  void read_kv(const KvLayer& kv, std::int32_t page, int count, std::int16_t* key_codes, float* key_scales,
               std::int16_t* value_codes, float* value_scales) override;

  void embed(std::span<const TokenId> ids, MatrixView<const float> table, float multiplier,
             MatrixView<float> h) override;
  void norm_quantise(MatrixView<const float> h, std::span<const std::int32_t> rows, const float* gain,
                     float eps, MatrixView<float> normed, const Quantised& out) override;
  void residual_norm(MatrixView<const float> y, const float* gain, float eps, MatrixView<float> h) override;
  void residual_norm_quantise(MatrixView<const float> y, const float* post_gain, MatrixView<float> h,
                              const float* next_gain, float eps, MatrixView<float> normed,
                              const Quantised& out) override;
  void quantise(MatrixView<const float> x, const Quantised& out) override;
  void linear(const Quantised& x, const LinearWeights& w, MatrixView<float> y) override;
  void rope_store(MatrixView<const float> qkv, std::span<const SequenceRows> sequences, const RopeTable& rope,
                  const KvLayer& kv, int heads, const Quantised& q) override;
  void attention(const Quantised& q, std::span<const SequenceRows> sequences, const KvLayer& kv,
                 const AttentionShape& shape, MatrixView<float> o) override;
  void route(MatrixView<const float> x, MatrixView<const float> w, float cap, bool renormalise,
             const ExpertChoice& choice) override;
  void prune(const ExpertChoice& choice, float ratio) override;
  void experts(const Quantised& x, const ExpertChoice& choice, const ExpertWeights& w,
               MatrixView<float> y) override;
  void logits(const Quantised& x, const HeadWeights& head, float multiplier, float cap,
              MatrixView<float> logits) override;
  void sample(MatrixView<float> logits, std::span<const SamplingRow> rows,
              std::span<SampledToken> out) override;
};

}  // namespace grokd::kernels::reference

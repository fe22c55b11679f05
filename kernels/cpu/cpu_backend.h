#pragma once
// The CPU backend: weights in panels (layout.h), inner loops from a KernelTable (isa.h), tiles of work shared
// out by a ThreadPool. One file per group of ops.

#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace grokd::kernels {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const KernelTable& kernels, int threads);

  std::string_view name() const override { return kernels_.backend; }
  std::string_view weight_layout() const override { return kWeightLayout; }

  Buffer allocate(std::size_t bytes) override;
  void upload(void* device, const void* host, std::size_t bytes) override;
  void download(void* host, const void* device, std::size_t bytes) override;
  std::string pin(const Buffer& memory) override;
  void reserve(const StepLimits& limits) override;

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

 private:
  /// body(row, thread) for rows [0, rows), several rows to a tile so that short rows are worth a thread.
  template <class Body>
  void for_rows(int rows, int floats_per_row, const Body& body);

  void quantise_row(const float* x, const Quantised& out, int row) const;

  const VectorKernels& vector() const { return *kernels_.vector; }
  const MatrixKernels& matrix() const { return *kernels_.matrix; }

  KernelTable kernels_;
  ThreadPool pool_;
  Scratch scratch_;
};

// Below this many floats a thread is not worth waking.
inline constexpr int kFloatsPerTile = 8192;

template <class Body>
void CpuBackend::for_rows(int rows, int floats_per_row, const Body& body) {
  int rows_per_tile = kFloatsPerTile / (floats_per_row > 0 ? floats_per_row : 1);
  if (rows_per_tile < 1) rows_per_tile = 1;
  const int tiles = (rows + rows_per_tile - 1) / rows_per_tile;
  pool_.parallel_for(tiles, [&](int tile, int thread) {
    const int first = tile * rows_per_tile;
    for (int row = first; row < first + rows_per_tile && row < rows; ++row) body(row, thread);
  });
}

}  // namespace grokd::kernels

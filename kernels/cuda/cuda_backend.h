#pragma once
// The CUDA backend: one device, one stream. Operands in tiles (layout.h), a file of kernels per group of ops.
// Ops only queue work; `sample`, `download` and the reads for tests wait for it.

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/code_rows.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/runtime.h"

namespace grokd::kernels::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device);
  ~CudaBackend() override;

  /// For a launch or a copy from the calling thread.
  cudaStream_t stream() const;

  std::string_view name() const override { return "cuda"; }
  std::string_view weight_layout() const override { return kWeightLayout; }

  Buffer allocate(std::size_t bytes) override;
  void upload(void* device, const void* host, std::size_t bytes) override;
  void download(void* host, const void* device, std::size_t bytes) override;
  void reserve(const StepLimits& limits) override;
  void run_step(const StepInputs& inputs, const std::function<void()>& ops) override;

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
  /// The rows of this step's sequences on the device (attention.h).
  struct StepRows rows_of(std::span<const SequenceRows> sequences);

  /// Steps alike in these run the same kernels with the same arguments.
  struct StepShape {
    int rows, logit_rows, blocks;
    auto operator<=>(const StepShape&) const = default;
  };
  /// Until all work is done; throws CudaError if that takes too long, as a collective does that a rank is
  /// missing in.
  void wait() const;
  StepShape shape_of(const StepInputs& inputs) const;

  const int device_;
  Stream stream_;
  HostTable ids_, logit_rows_, step_rows_, sampling_;
  std::map<StepShape, ExecutableGraph> steps_;
  int most_blocks_ = 0;  // of positions, within the limits; 0: nothing is reserved
  int block_class_ = 0;  // while a step is recorded or run: the blocks its launches are made for
  std::vector<std::int32_t> step_table_;  // what step_rows_ is made of
  std::vector<std::byte> sampling_table_;
  Scratch parts_;                                              // of the groups of a matrix: [G, rows, out]
  Scratch expert_order_, inner_, inner_codes_, inner_scales_;  // of the experts' rows
  Scratch attended_;                                           // what each block of positions gives
  Scratch sampled_, working_;  // results of the sampler, its copy of the logits
  PinnedMemory sampled_host_;
  std::size_t sampled_host_bytes_ = 0;
};

CodeRows code_rows(const Quantised& x);

}  // namespace grokd::kernels::cuda

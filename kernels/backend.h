#pragma once
// THE list of operations. Every backend gives the bits of docs/numerics.md; `reference` is its plain form.
//
// Letters:  T tokens of a step (all sequences)   D model width        H / K query / key-value heads
//           C head width                         E experts            F expert width (ffn)
//           G scale groups along an input        V vocabulary         R rows of logits wanted
// Memory handed to an op belongs to the backend (`allocate`); what is marked "host" is ordinary memory.
// Ops of one backend run one after the other; each is complete, as seen by the next op, when it returns.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/communicator.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"

namespace grokd::kernels {

// ---- weights ---------------------------------------------------------------------------------------------

/// One int8 matrix [in, out] as a checkpoint stores it (host), with f32 scales [scale_rows, out] (host).
/// Fewer scale rows than the groups asked for are repeated (docs/numerics.md, section 4).
struct LinearSource {
  MatrixView<const std::int8_t> weight;
  MatrixView<const float> scales;
};

/// An int8 matrix in the backend's own layout.
struct LinearWeights {
  int in = 0, out = 0, groups = 1;
  Buffer data;
};

struct ExpertSource {
  LinearSource gate;  // [D, F], the activated branch ("linear")
  LinearSource up;    // [D, F], the plain branch ("linear_v")
  LinearSource down;  // [F, D], scale groups along F ("linear_1")
};

/// What the gate branch of an expert goes through (docs/numerics.md, section 5.8).
enum class Activation { gelu, silu };

/// All experts of a layer in the backend's own layout.
struct ExpertWeights {
  int experts = 0, width = 0, ffn = 0, groups = 1;
  std::vector<Buffer> data;  // one block an expert
  Activation activation = Activation::gelu;
};

/// Output embedding as int16 codes with one scale a row (docs/numerics.md, section 5.9).
struct HeadWeights {
  int vocab = 0, width = 0;
  Buffer data;
};

// ---- activations -----------------------------------------------------------------------------------------

/// Rows of 16-bit codes [rows, cols] with scales [rows, groups]; the layout of `codes` is the backend's own.
struct Quantised {
  std::byte* codes = nullptr;
  float* scales = nullptr;
  int rows = 0, cols = 0, groups = 1;
};

/// Memory for up to `max_rows` quantised rows.
struct QuantisedBuffer {
  Buffer codes, scales;
  int max_rows = 0, cols = 0, groups = 1;
  Quantised view(int rows) const { return {codes.data(), scales.as<float>(), rows, cols, groups}; }
};

/// Experts of each token, best first: [T, per_token]. Expert -1: skipped (its gate is not read).
struct ExpertChoice {
  std::int32_t* expert = nullptr;
  float* gate = nullptr;
  int tokens = 0, per_token = 0;
};

// ---- sequences and the cache -----------------------------------------------------------------------------

inline constexpr int kPagePositions = 64;  // positions a KV page: also the block of attention (section 5.5)

/// The rows of one sequence in this step: tokens at positions [position, position + rows), consecutive rows.
struct SequenceRows {
  int first_row = 0;
  int rows = 0;
  int position = 0;                     // position of the first row
  std::span<const std::int32_t> pages;  // host; page of positions 64*i .. 64*i+63; covers position + rows
};

/// Codes of keys and values: 16 bits, or 8 bits of what calibrated ranges were divided out of (section 5.3).
enum class KvType { int16, int8 };
constexpr int kv_code_bytes(KvType type) { return type == KvType::int8 ? 1 : 2; }

/// Of an int8 cache: the range of each channel of a layer's keys (after RoPE) and values, and 1 / range.
struct KvRanges {
  const float *key = nullptr, *key_inverse = nullptr;  // [K, C] each
  const float *value = nullptr, *value_inverse = nullptr;
};

/// One layer of the KV cache: `pages` blocks of `page_bytes`, the layout of a page is the backend's own.
struct KvLayer {
  std::byte* data = nullptr;
  std::size_t page_bytes = 0;
  int kv_heads = 0, head_size = 0;
  KvType type = KvType::int16;
  KvRanges ranges = {};  // int8 only
};

/// cos and sin, [positions, C/2] each (docs/numerics.md, section 5.2); made by rope_table.h.
struct RopeTable {
  Buffer cos, sin;
  int positions = 0, half = 0;
};

struct AttentionShape {
  int heads = 0;
  float multiplier = 1;  // f32(attn_output_multiplier)
  float cap = 0;         // soft cap of the scores, 0 = none
  int window = 0;        // a query at position p sees keys j with p - window < j <= p; 0 = all
  /// Of the backend, [positions]: scores of a query at position p, after the cap, are multiplied by entry p;
  /// null = none. The cap times the largest entry is 60 at most.
  const float* temperature = nullptr;
};

/// The largest step that will ever be run: what a backend sizes its scratch memory by.
struct StepLimits {
  int tokens = 0;      // T
  int logit_rows = 0;  // R
  int sequences = 0;   // sequences in one step
  int width = 0;       // D
  int heads = 0, kv_heads = 0, head_size = 0;
  int experts = 0, per_token = 0, ffn = 0, groups = 1;
  int vocab = 0;
  int positions = 0;  // longest sequence
};

/// What the ops of one step bring from the host.
struct StepInputs {
  std::span<const TokenId> ids;
  std::span<const SequenceRows> sequences;
  std::span<const std::int32_t> logit_rows;
};

// ---- the backend -----------------------------------------------------------------------------------------

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "reference", "cpu-avx512vnni", ...
  /// Names how packed weights lie in memory; backends of the same layout can use each other's.
  virtual std::string_view weight_layout() const { return name(); }

  // Memory: at start-up only; 64-byte aligned, zeroed. Throws std::bad_alloc.
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  /// Keeps a block in memory and on large pages as far as the system allows; returns what it refuses, or "".
  virtual std::string pin(const Buffer& memory);
  /// Takes all scratch memory that steps within `limits` need; afterwards no op allocates.
  virtual void reserve(const StepLimits& limits) = 0;
  /// Calls `ops`, which runs the ops of one step over these inputs. A backend may record them and, for a
  /// later step of the same shape, run the record: all memory that the ops use must be the same each time.
  virtual void run_step(const StepInputs&, const std::function<void()>& ops) { ops(); }

  // Weights into the backend's layout, once, at load. Safe to call from several threads.
  /// Columns of several matrices with the same input side by side, e.g. query | key | value.
  virtual LinearWeights pack_linear(std::span<const LinearSource> columns, int groups) = 0;
  virtual ExpertWeights pack_experts(std::span<const ExpertSource> experts, int groups) = 0;
  /// embeddings [V, D], host.
  virtual HeadWeights pack_head(MatrixView<const float> embeddings) = 0;

  // Activations.
  virtual std::size_t code_bytes(int rows, int cols, int groups) const = 0;
  QuantisedBuffer allocate_quantised(int max_rows, int cols, int groups);
  /// Codes in plain order [rows, cols] (host); for tests and traces.
  virtual void read_codes(const Quantised& x, std::int16_t* codes) = 0;

  // KV cache.
  virtual std::size_t kv_page_bytes(int kv_heads, int head_size, KvType type = KvType::int16) const = 0;
  /// Plain copies of `count` positions of one page: codes [count, K, C], scales [count, K] (host).
  virtual void read_kv(const KvLayer& kv, std::int32_t page, int count, std::int16_t* key_codes,
                       float* key_scales, std::int16_t* value_codes, float* value_scales) = 0;

  // ---- ops, in the order of a layer (docs/numerics.md, section 5) ----

  /// h[t] = table[ids[t]] * multiplier.  table [V, D], ids host.
  virtual void embed(std::span<const TokenId> ids, MatrixView<const float> table, float multiplier,
                     MatrixView<float> h) = 0;

  /// out = Q(RMSNorm(h[rows[i]])), one group; `normed` [n, D] also gets the f32 norm unless its data is null.
  /// `rows` (host) empty: all rows of h in order.
  virtual void norm_quantise(MatrixView<const float> h, std::span<const std::int32_t> rows, const float* gain,
                             float eps, MatrixView<float> normed, const Quantised& out) = 0;

  /// h += RMSNorm(y) * gain.  gain null: h += y.
  virtual void residual_norm(MatrixView<const float> y, const float* gain, float eps,
                             MatrixView<float> h) = 0;

  /// residual_norm(y, post_gain), then norm_quantise of all rows with next_gain, in one pass.
  virtual void residual_norm_quantise(MatrixView<const float> y, const float* post_gain, MatrixView<float> h,
                                      const float* next_gain, float eps, MatrixView<float> normed,
                                      const Quantised& out) = 0;

  /// out = Q(x, 32767) for each row and each of out.groups equal runs of columns.
  virtual void quantise(MatrixView<const float> x, const Quantised& out) = 0;

  /// y [T, out] = tree over groups of x W.  x.groups == w.groups.
  virtual void linear(const Quantised& x, const LinearWeights& w, MatrixView<float> y) = 0;

  /// qkv [T, (H + 2K) * C]: RoPE on q and k; Q(q) -> q [T*H rows, C]; Q(k), Q(v) -> the pages.
  virtual void rope_store(MatrixView<const float> qkv, std::span<const SequenceRows> sequences,
                          const RopeTable& rope, const KvLayer& kv, int heads, const Quantised& q) = 0;

  /// q [T*H rows, C] against the pages -> o [T, H*C].
  virtual void attention(const Quantised& q, std::span<const SequenceRows> sequences, const KvLayer& kv,
                         const AttentionShape& shape, MatrixView<float> o) = 0;

  /// Top `choice.per_token` of softmax(cap(x W)).  x [T, D], w [D, E]; renormalise: gates divided by their
  /// sum.
  virtual void route(MatrixView<const float> x, MatrixView<const float> w, float cap, bool renormalise,
                     const ExpertChoice& choice) = 0;

  /// Skips the chosen experts whose gate is below ratio times that of the token's best one.
  virtual void prune(const ExpertChoice& choice, float ratio) = 0;

  /// y [T, D] = gated sum of the chosen experts: down(activation(gate x) * (up x)).  x: one group.
  virtual void experts(const Quantised& x, const ExpertChoice& choice, const ExpertWeights& w,
                       MatrixView<float> y) = 0;

  /// logits [R, V] = cap((x emb^T) * multiplier); cap 0 = none.
  virtual void logits(const Quantised& x, const HeadWeights& head, float multiplier, float cap,
                      MatrixView<float> logits) = 0;

  /// Sections 6 and 7 for each row of logits (changed in place). `rows`, `out`: host, equal length.
  virtual void sample(MatrixView<float> logits, std::span<const SamplingRow> rows,
                      std::span<SampledToken> out) = 0;
};

/// Plain loops: the definition.
std::unique_ptr<Backend> make_reference_backend();

struct CpuOptions {
  int threads = 0;             // 0 = all cores
  std::string isa;             // "", "scalar", "avx2", "avx512": "" = the best this machine has
  bool force_threads = false;  // more threads than cores are wanted: each waits for the others, step for step
};
/// What `reserve` takes at most, of a CPU backend with so many threads.
std::size_t cpu_scratch_bytes(const StepLimits& limits, int threads);

/// Throws std::invalid_argument, naming what is wrong, for an instruction set this machine lacks or more
/// threads than cores that are not forced.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

struct CudaOptions {
  int device = 0;
};
/// One line that says why no CUDA device can be used: by this build, or on this machine. Empty: one can.
std::string cuda_unavailable();
/// Memory that is free on the device; 0: not known.
std::size_t cuda_free_bytes(const CudaOptions& options);
/// Throws std::invalid_argument with that line, or naming a device that is not there.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);
/// Ranks on this device and those after it, joined by NCCL. Throws std::invalid_argument if there are too
/// few.
std::unique_ptr<RankGroup> make_cuda_group(const CudaOptions& first, int ranks);

}  // namespace grokd::kernels

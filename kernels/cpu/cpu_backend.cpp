#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/op_scratch.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/panels.h"

namespace grokd::kernels {
namespace {

int thread_count(const CpuOptions& options) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (options.threads < 0) throw std::invalid_argument("the number of threads cannot be negative");
  if (options.threads > cores && !options.force_threads) {
    throw std::invalid_argument(std::to_string(options.threads) + " threads are more than the " +
                                std::to_string(cores) + " cores here, and not forced");
  }
  return options.threads > 0 ? options.threads : cores;
}

int columns_of(const LinearSource& source) { return static_cast<int>(source.weight.cols); }

/// Panels of 32 columns of gate, then the same of up; the last ones padded.
std::vector<PanelColumns> gate_up_columns(const ExpertSource& expert, int ffn) {
  std::vector<PanelColumns> columns;
  for (int first = 0; first < ffn; first += kPairColumns) {
    const int count = std::min(kPairColumns, ffn - first);
    for (const LinearSource* source : {&expert.gate, &expert.up}) {
      columns.push_back({source, first, count});
      columns.push_back({nullptr, 0, kPairColumns - count});
    }
  }
  return columns;
}

void check_expert(const ExpertSource& expert, const ExpertLayout& layout) {
  check_source(expert.gate, 1);
  check_source(expert.up, 1);
  check_source(expert.down, layout.groups);
  if (expert.gate.weight.rows != layout.width || expert.up.weight.rows != layout.width ||
      expert.gate.weight.cols != layout.ffn || expert.up.weight.cols != layout.ffn ||
      expert.down.weight.rows != layout.ffn || expert.down.weight.cols != layout.width) {
    throw std::invalid_argument("the three matrices of an expert differ in their sizes");
  }
}

std::size_t shared_scratch(const StepLimits& limits) {
  const ExpertLayout experts{limits.width, limits.ffn, limits.groups};
  return std::max(bytes_of<ExpertLists>(limits.tokens * limits.per_token, limits.experts, experts),
                  bytes_of<TileStarts>(std::max(limits.sequences, limits.tokens)));
}

/// Of one thread.
std::size_t own_scratch(const StepLimits& limits, int rows) {
  std::size_t attention = 0;
  if (limits.kv_heads > 0) {
    const int heads_each = limits.heads / limits.kv_heads;
    attention = bytes_of<AttentionScratch>(std::max(1, kQueriesATile / heads_each) * heads_each,
                                           limits.head_size, ceil_div(limits.positions, kPagePositions) + 1);
  }
  return std::max({
      attention,
      bytes_of<PanelScratch>(rows, limits.groups),
      bytes_of<RouterScratch>(limits.width, limits.experts),
      bytes_of<DownScratch>(limits.tokens * limits.per_token, limits.experts, limits.groups,
                            limits.per_token),
      bytes_of<RowScratch>(limits.width),
      bytes_of<RopeScratch>(limits.head_size),
      bytes_of<SampleScratch>(limits.vocab),
  });
}

}  // namespace

std::size_t cpu_scratch_bytes(const StepLimits& limits, int threads) {
  return shared_scratch(limits) + static_cast<std::size_t>(threads) * own_scratch(limits, kMostRowsAtOnce);
}

CpuBackend::CpuBackend(const KernelTable& kernels, int threads)
    : kernels_(kernels), pool_(threads), scratch_(threads) {}

Buffer CpuBackend::allocate(std::size_t bytes) { return allocate_memory(bytes); }

void CpuBackend::upload(void* device, const void* host, std::size_t bytes) {
  std::memcpy(device, host, bytes);
}

void CpuBackend::download(void* host, const void* device, std::size_t bytes) {
  std::memcpy(host, device, bytes);
}

std::string CpuBackend::pin(const Buffer& memory) { return pin_memory(memory); }

void CpuBackend::reserve(const StepLimits& limits) {
  scratch_.reserve_shared(shared_scratch(limits));
  scratch_.reserve_own(own_scratch(limits, matrix().rows));
}

LinearWeights CpuBackend::pack_linear(std::span<const LinearSource> columns, int groups) {
  LinearWeights w;
  w.in = static_cast<int>(columns.front().weight.rows);
  w.groups = groups;
  std::vector<PanelColumns> runs;
  for (const LinearSource& source : columns) {
    if (source.weight.rows != w.in)
      throw std::invalid_argument("matrices side by side differ in their inputs");
    check_source(source, groups);
    runs.push_back({&source, 0, columns_of(source)});
    w.out += columns_of(source);
  }
  const PanelLayout layout{w.in, w.out, groups};
  w.data = allocate(layout.bytes());
  pack_panels(runs, layout, w.data.data());
  return w;
}

ExpertWeights CpuBackend::pack_experts(std::span<const ExpertSource> experts, int groups) {
  ExpertWeights w;
  w.experts = static_cast<int>(experts.size());
  w.width = static_cast<int>(experts.front().gate.weight.rows);
  w.ffn = columns_of(experts.front().gate);
  w.groups = groups;
  const ExpertLayout layout{w.width, w.ffn, groups};
  for (const ExpertSource& expert : experts) {
    check_expert(expert, layout);
    Buffer data = allocate(layout.bytes());
    pack_panels(gate_up_columns(expert, w.ffn), layout.gate_up(), data.data());
    const PanelColumns down{&expert.down, 0, w.width};
    pack_panels({&down, 1}, layout.down(), data.data() + layout.gate_up().bytes());
    w.data.push_back(std::move(data));
  }
  return w;
}

HeadWeights CpuBackend::pack_head(MatrixView<const float> embeddings) {
  // Two products share one 32-bit sum: 2 * 255 * 128 * 32768 < 2^31.
  constexpr int kWidest = 32768;
  if (embeddings.cols > kWidest) {
    throw std::invalid_argument("an output embedding of width " + std::to_string(embeddings.cols) +
                                " is wider than " + std::to_string(kWidest));
  }
  HeadWeights head;
  head.vocab = static_cast<int>(embeddings.rows);
  head.width = static_cast<int>(embeddings.cols);
  const HeadLayout layout{head.vocab, head.width};
  head.data = allocate(layout.bytes());
  for (int panel = 0; panel < layout.panels(); ++panel) {
    pack_head_panel(embeddings, layout, panel,
                    head.data.data() + static_cast<std::size_t>(panel) * layout.panel_bytes());
  }
  return head;
}

std::size_t CpuBackend::code_bytes(int rows, int cols, int groups) const {
  return static_cast<std::size_t>(rows) * CodeLayout{cols, groups}.row_bytes();
}

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(choose_kernels(options.isa), thread_count(options));
}

}  // namespace grokd::kernels

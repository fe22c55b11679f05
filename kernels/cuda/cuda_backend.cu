#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cuda/attention_scratch.h"
#include "kernels/cuda/expert_order.h"
#include "kernels/cuda/nccl_group.h"
#include "kernels/cuda/page.h"
#include "kernels/cuda/step_rows.h"

namespace grokd::kernels {
namespace cuda {
namespace {

constexpr std::chrono::seconds kStuckAfter{60};
constexpr std::chrono::milliseconds kSpin{20};  // a decode step ends sooner; then the core is given away
constexpr int kMostRecordedRows = 16;           // of a step that is worth recording
constexpr std::size_t kMostRecordedSteps = 96;  // kept at a time

}  // namespace

CudaBackend::CudaBackend(int device) : device_(device) {
  check(cudaSetDevice(device_));
  stream_ = make_stream();
}

CudaBackend::~CudaBackend() { cudaSetDevice(device_); }

cudaStream_t CudaBackend::stream() const {
  check(cudaSetDevice(device_));
  return stream_.get();
}

Buffer CudaBackend::allocate(std::size_t bytes) {
  const cudaStream_t queue = stream();
  DeviceMemory memory = allocate_device(bytes);
  check(cudaMemsetAsync(memory.get(), 0, bytes, queue));
  check(cudaStreamSynchronize(queue));
  return {memory.release(), bytes, [device = device_](std::byte* data) {
            cudaSetDevice(device);
            cudaFree(data);
          }};
}

void CudaBackend::upload(void* device, const void* host, std::size_t bytes) {
  const cudaStream_t queue = stream();
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, queue));
  check(cudaStreamSynchronize(queue));
}

void CudaBackend::download(void* host, const void* device, std::size_t bytes) {
  const cudaStream_t queue = stream();
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, queue));
  wait();
}

void CudaBackend::wait() const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (cudaError_t state; (state = cudaStreamQuery(stream_.get())) != cudaSuccess;) {
    if (state != cudaErrorNotReady) check(state);
    const auto waited = Clock::now() - start;
    if (waited > kStuckAfter) throw CudaError("CUDA: a step did not end within a minute");
    if (waited > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void CudaBackend::reserve(const StepLimits& limits) {
  const cudaStream_t queue = stream();
  const auto n = [](auto value) { return static_cast<std::size_t>(std::max<decltype(value)>(value, 1)); };
  const std::size_t tokens = n(limits.tokens), groups = n(limits.groups), width = n(limits.width);
  const int choices = limits.tokens * limits.per_token;
  // Each expert in use may waste less than one set of rows.
  const int sorted = round_up(choices + std::min(limits.experts, choices) * kMostSetRows, kMostSetRows);
  const std::size_t rows = n(sorted);
  parts_.at_least(std::max(tokens, rows) * groups * width * sizeof(float), queue);
  expert_order_.at_least(ExpertOrder::bytes(choices, sorted / kTileRows + 1, kTileRows), queue);
  inner_.at_least(rows * n(limits.ffn) * sizeof(float), queue);
  inner_codes_.at_least(CodeLayout{std::max(limits.ffn, 1), std::max(limits.groups, 1)}.bytes(sorted), queue);
  inner_scales_.at_least(rows * groups * sizeof(float), queue);
  const int blocks = ceil_div(std::max(limits.positions, 1), kPagePositions);
  attended_.at_least(attention_bytes(limits.heads, limits.head_size, blocks, limits.tokens), queue);
  working_.at_least(n(limits.logit_rows) * n(limits.vocab) * sizeof(float), queue);
  ids_.reserve(tokens * sizeof(TokenId), queue);
  logit_rows_.reserve(n(limits.logit_rows) * sizeof(std::int32_t), queue);
  const std::size_t pages = n(limits.sequences) * static_cast<std::size_t>(blocks);
  step_rows_.reserve((3 * tokens + pages) * sizeof(std::int32_t), queue);
  steps_.clear();  // they were recorded over memory that may have moved
  most_blocks_ = limits.positions > 0 ? blocks : 0;
}

CudaBackend::StepShape CudaBackend::shape_of(const StepInputs& inputs) const {
  int longest = 1;
  for (const SequenceRows& s : inputs.sequences) longest = std::max(longest, s.position + s.rows);
  const auto blocks = static_cast<unsigned>(ceil_div(longest, kPagePositions));
  return {static_cast<int>(inputs.ids.size()), static_cast<int>(inputs.logit_rows.size()),
          std::min(static_cast<int>(std::bit_ceil(blocks)), most_blocks_)};
}

/// The tables go ahead of the graph, so nothing in it depends on the host.
void CudaBackend::run_step(const StepInputs& inputs, const std::function<void()>& ops) {
  const int rows = static_cast<int>(inputs.ids.size());
  if (most_blocks_ == 0 || rows > kMostRecordedRows) return ops();
  const cudaStream_t queue = stream();
  const StepShape shape = shape_of(inputs);
  block_class_ = shape.blocks;
  ids_.send(inputs.ids.data(), inputs.ids.size_bytes(), queue);
  if (!inputs.logit_rows.empty()) {
    logit_rows_.send(inputs.logit_rows.data(), inputs.logit_rows.size_bytes(), queue);
  }
  rows_of(inputs.sequences);
  ExecutableGraph& graph = steps_[shape];
  if (graph == nullptr) graph = record(queue, ops);
  check(cudaGraphLaunch(graph.get(), queue));
  block_class_ = 0;
  if (steps_.size() > kMostRecordedSteps) {
    check(cudaStreamSynchronize(queue));
    steps_.clear();
  }
}

std::size_t CudaBackend::code_bytes(int rows, int cols, int groups) const {
  return CodeLayout{cols, groups}.bytes(rows);
}

void CudaBackend::read_codes(const Quantised& x, std::int16_t* codes) {
  const CodeLayout layout{x.cols, x.groups};
  std::vector<unsigned char> bytes(layout.bytes(x.rows));
  download(bytes.data(), x.codes, bytes.size());
  for (int row = 0; row < x.rows; ++row) {
    for (int i = 0; i < x.cols; ++i) {
      const int group = i / layout.group_cols(), k = i % layout.group_cols();
      const std::size_t tile = static_cast<std::size_t>(group * layout.group_tiles() + k / kTileInputs);
      const unsigned char* at =
          bytes.data() + layout.row_offset(row) + tile * kTileBytes + code_byte(k % kTileInputs);
      codes[static_cast<std::ptrdiff_t>(row) * x.cols + i] =
          static_cast<std::int16_t>(static_cast<std::int8_t>(at[0]) * 256 + at[kLowPlane]);
    }
  }
}

std::size_t CudaBackend::kv_page_bytes(int kv_heads, int head_size, KvType type) const {
  return PageLayout{kv_heads, head_size, kv_code_bytes(type)}.page_bytes();
}

void CudaBackend::read_kv(const KvLayer& kv, std::int32_t page, int count, std::int16_t* key_codes,
                          float* key_scales, std::int16_t* value_codes, float* value_scales) {
  std::vector<std::byte> bytes(kv.page_bytes);
  download(bytes.data(), kv.data + static_cast<std::size_t>(page) * kv.page_bytes, bytes.size());
  KvPages host = kv_pages(kv);
  host.data = bytes.data();
  for (int slot = 0; slot < count; ++slot) {
    for (int h = 0; h < kv.kv_heads; ++h) {
      const PageHead head = host.head(0, h);
      const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(slot) * kv.kv_heads + h;
      key_scales[entry] = head.key_scales[slot];
      value_scales[entry] = head.value_scales[slot];
      for (int i = 0; i < kv.head_size; ++i) {
        key_codes[entry * kv.head_size + i] = static_cast<std::int16_t>(head.get(head.key(slot, i)));
        value_codes[entry * kv.head_size + i] = static_cast<std::int16_t>(head.get(head.value(slot, i)));
      }
    }
  }
}

}  // namespace cuda

std::string cuda_unavailable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no CUDA device can be used: ") + cudaGetErrorString(error);
  return count > 0 ? "" : "this machine has no CUDA device";
}

std::size_t cuda_free_bytes(const CudaOptions& options) {
  std::size_t free_bytes = 0, total = 0;
  cuda::check(cudaSetDevice(options.device));
  cuda::check(cudaMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw std::invalid_argument(reason);
  int count = 0;
  cuda::check(cudaGetDeviceCount(&count));
  if (options.device < 0 || options.device >= count) {
    throw std::invalid_argument("CUDA device " + std::to_string(options.device) + " is not among the " +
                                std::to_string(count) + " of this machine");
  }
  return std::make_unique<cuda::CudaBackend>(options.device);
}

std::unique_ptr<RankGroup> make_cuda_group(const CudaOptions& first, int ranks) {
  return cuda::make_nccl_group(first.device, ranks);
}

}  // namespace grokd::kernels

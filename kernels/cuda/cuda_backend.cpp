#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/attention_scratch.h"
#include "kernels/cuda/expert_order.h"
#include "kernels/cuda/page.h"

namespace grokd::kernels {
namespace cuda {

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
  check(cudaStreamSynchronize(queue));
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
      const unsigned char* at = bytes.data() + layout.row_offset(row) + tile * kTileBytes + code_byte(k % kTileInputs);
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

}  // namespace grokd::kernels

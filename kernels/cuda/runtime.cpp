#include "kernels/cuda/runtime.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace grokd::kernels::cuda {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // running out of memory harms nothing that was there before
    throw std::bad_alloc();
  }
  throw CudaError(std::string("CUDA: ") + cudaGetErrorString(error));
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

DeviceMemory allocate_device(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

PinnedMemory allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, std::max<std::size_t>(bytes, 1)));
  return PinnedMemory(static_cast<std::byte*>(memory));
}

std::byte* Scratch::at_least(std::size_t bytes, cudaStream_t stream) {
  if (bytes > bytes_ || memory_ == nullptr) {
    check(cudaStreamSynchronize(stream));
    memory_.reset();
    memory_ = allocate_device(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

void HostTable::reserve(std::size_t bytes, cudaStream_t stream) {
  if (bytes <= capacity_ && host_ != nullptr) return;
  check(cudaStreamSynchronize(stream));
  host_ = allocate_pinned(bytes);
  device_.at_least(bytes, stream);
  capacity_ = bytes;
  used_ = 0;
}

const std::byte* HostTable::send(const void* data, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0 && bytes == used_ && std::memcmp(host_.get(), data, bytes) == 0)
    return device_.as<std::byte>();
  reserve(bytes > capacity_ ? std::max<std::size_t>(2 * bytes, 4096) : std::max<std::size_t>(capacity_, 4096),
          stream);
  check(cudaStreamSynchronize(stream));  // the last copy may still read the pinned memory
  if (bytes > 0) std::memcpy(host_.get(), data, bytes);
  used_ = bytes;
  check(cudaMemcpyAsync(device_.as<std::byte>(), host_.get(), bytes, cudaMemcpyHostToDevice, stream));
  return device_.as<std::byte>();
}

}  // namespace grokd::kernels::cuda

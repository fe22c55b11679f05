#pragma once
// Owners of what CUDA's runtime hands out, and its errors as exceptions.

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <stdexcept>

namespace grokd::kernels::cuda {

/// A call that failed, or a kernel before it; the device cannot be used any more.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws CudaError, std::bad_alloc where memory ran out.
void check(cudaError_t error);

struct StreamRelease {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamRelease>;
Stream make_stream();

struct GraphRelease {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using ExecutableGraph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphRelease>;

struct DeviceRelease {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceRelease>;
DeviceMemory allocate_device(std::size_t bytes);

struct PinnedRelease {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
using PinnedMemory = std::unique_ptr<std::byte, PinnedRelease>;
PinnedMemory allocate_pinned(std::size_t bytes);

/// What the stream is given while `work` runs, as a graph; nothing of it is executed.
template <class Work>
ExecutableGraph record(cudaStream_t stream, const Work& work) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(error);
  return ExecutableGraph(executable);
}

/// Device memory that only grows; growing loses what it held.
class Scratch {
 public:
  /// At least `bytes`; waits for `stream` before old memory goes.
  std::byte* at_least(std::size_t bytes, cudaStream_t stream);
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  DeviceMemory memory_;
  std::size_t bytes_ = 0;
};

/// Tables that ops bring from the host: sent once, and again only when they change.
class HostTable {
 public:
  /// Room for so many bytes: the copy stays where it is until one is larger.
  void reserve(std::size_t bytes, cudaStream_t stream);
  /// The copy on the device. A table that grew or changed waits for the copies before it.
  const std::byte* send(const void* data, std::size_t bytes, cudaStream_t stream);

 private:
  PinnedMemory host_;
  Scratch device_;
  std::size_t capacity_ = 0, used_ = 0;
};

}  // namespace grokd::kernels::cuda

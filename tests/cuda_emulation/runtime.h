#pragma once
// The part of CUDA's runtime that kernels/cuda calls, under CUDA's names. Devices are ordinary memory between
// pages that cannot be touched; streams run at once, or record while they are captured into a graph.

#include <cstddef>
#include <functional>

#include "tests/cuda_emulation/block.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

namespace cuda_emulation {
struct Stream;
struct Event {};
struct Graph;
}  // namespace cuda_emulation
using cudaStream_t = cuda_emulation::Stream*;
using cudaEvent_t = cuda_emulation::Event*;
using cudaGraph_t = cuda_emulation::Graph*;
using cudaGraphExec_t = cuda_emulation::Graph*;

struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
};

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError();
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

namespace cuda_emulation {

/// Runs the kernel, or records it. A fault of the kernel is thrown as KernelFault.
cudaError_t launch(cudaStream_t stream, const LaunchShape& shape, std::function<void()> body);

/// Runs work of a stream that is not a kernel, or records it.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// How often a graph was launched in this process.
long graph_launches();

/// Memory of each device, for tests of what happens where it runs out; 0: as much as there is.
void limit_memory(std::size_t bytes);
/// The launch after `launches` further ones fails, and all that follow on any device; < 0: none fails.
void fail_after(long launches);

}  // namespace cuda_emulation

#include "tests/cuda_emulation/runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace cuda_emulation {

struct Graph {
  std::vector<std::function<void()>> steps;
};
struct Stream {
  Graph* capture = nullptr;  // what is recorded into
};

namespace {

constexpr int kDevices = 8;
constexpr std::size_t kAlignment = 64;
constexpr unsigned char kCanary = 0xa5;

/// Device memory: pages that end where the block ends, between two that cannot be touched.
class Memory {
 public:
  void* take(std::size_t bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t padded = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t inner = (padded + page - 1) / page * page;
    const std::lock_guard lock(mutex_);
    if (limit_ != 0 && used_ + padded > limit_) return nullptr;
    void* pages =
        mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    auto* first = static_cast<unsigned char*>(pages) + page;
    if (mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) return nullptr;
    unsigned char* data = first + inner - padded;
    std::memset(data + bytes, kCanary, padded - bytes);
    blocks_[data] = {pages, inner + 2 * page, bytes, padded};
    used_ += padded;
    return data;
  }

  void give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return;
    const Block block = found->second;
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = block.bytes; i < block.padded; ++i) {
      if (bytes[i] == kCanary) continue;
      std::fprintf(stderr, "cuda emulation: a block of %zu bytes was written past its end\n", block.bytes);
      std::abort();
    }
    munmap(block.pages, block.mapped);
    used_ -= block.padded;
    blocks_.erase(found);
  }

  void limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }

 private:
  struct Block {
    void* pages;
    std::size_t mapped, bytes, padded;
  };
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  std::size_t used_ = 0;
  std::atomic<std::size_t> limit_{0};
};

Memory& memory() {
  static Memory all;
  return all;
}

std::atomic<long>& launches_left() {
  static std::atomic<long> left{-1};
  return left;
}

std::atomic<long>& launched_graphs() {
  static std::atomic<long> count{0};
  return count;
}

cudaError_t run_or_record(cudaStream_t stream, std::function<void()> step) {
  if (stream != nullptr && stream->capture != nullptr) {
    stream->capture->steps.push_back(std::move(step));
  } else {
    step();
  }
  return cudaSuccess;
}

/// True once launches fail.
bool broken(bool counts) {
  std::atomic<long>& left = launches_left();
  if (left.load() < 0) return false;
  if (left.load() == 0) return true;
  if (counts) left.fetch_sub(1);
  return false;
}

}  // namespace

cudaError_t launch(cudaStream_t stream, const LaunchShape& shape, std::function<void()> body) {
  if (broken(true)) return cudaErrorLaunchFailure;
  return run_or_record(stream, [shape, body = std::move(body)] { Machine::current().run(shape, body); });
}

void enqueue(cudaStream_t stream, std::function<void()> work) { run_or_record(stream, std::move(work)); }
long graph_launches() { return launched_graphs(); }
void limit_memory(std::size_t bytes) { memory().limit(bytes); }
void fail_after(long launches) { launches_left() = launches; }

}  // namespace cuda_emulation

using namespace cuda_emulation;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "invalid argument";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  std::snprintf(properties->name, sizeof(properties->name), "emulated device");
  properties->multiProcessorCount = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < kDevices ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetLastError() { return broken(false) ? cudaErrorLaunchFailure : cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = *total = memory().limit() != 0 ? memory().limit() : std::size_t{4} << 30;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = memory().take(bytes);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* data) {
  memory().give_back(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return run_or_record(stream, [=] { std::memset(data, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return run_or_record(stream, [=] {
    if (bytes > 0) std::memmove(to, from, bytes);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new Stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return broken(false) ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capture = new Graph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->capture, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new Graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  if (broken(true)) return cudaErrorLaunchFailure;
  ++launched_graphs();
  for (const auto& step : executable->steps) step();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

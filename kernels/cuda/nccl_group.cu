// The ranks of a tensor-parallel group on the devices of one process. NCCL only carries: every rank gathers
// the vectors of all and adds them in the tree of docs/numerics.md, section 4, so the bits are those of one
// rank.

#include "kernels/cuda/nccl_group.h"

#include <nccl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/block.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/tree.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kAddThreads = 256;

void check_nccl(ncclResult_t result) {
  if (result != ncclSuccess) throw CudaError(std::string("NCCL: ") + ncclGetErrorString(result));
}

struct CommunicatorRelease {
  void operator()(ncclComm_t communicator) const { ncclCommAbort(communicator); }
};
using NcclCommunicator = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, CommunicatorRelease>;

/// y[i] = tree over the ranks' parts [ranks, n].
__global__ void add_ranks(const float* parts, int ranks, std::ptrdiff_t n, float* y) {
  const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(blockIdx.x) * threads() + thread();
  if (i >= n) return;
  TreeSum sum;
  for (int r = 0; r < ranks; ++r) sum.add(parts[r * n + i]);
  y[i] = sum.result();
}

class NcclRank final : public Communicator {
 public:
  NcclRank(int rank, int ranks, ncclComm_t communicator)
      : rank_(rank), ranks_(ranks), communicator_(communicator) {}

  int rank() const override { return rank_; }
  int size() const override { return ranks_; }

  void attach(Backend& backend, std::size_t floats) override {
    backend_ = &dynamic_cast<CudaBackend&>(backend);
    parts_.at_least(floats * static_cast<std::size_t>(ranks_) * sizeof(float), backend_->stream());
  }

  void sum(MatrixView<float> y) override {
    if (y.stride != y.cols) throw std::logic_error("only whole rows are summed over devices");
    const cudaStream_t stream = backend_->stream();
    const auto n = static_cast<std::size_t>(y.rows * y.cols);
    parts_.at_least(n * static_cast<std::size_t>(ranks_) * sizeof(float), stream);
    check_nccl(ncclAllGather(y.data, parts_.as<float>(), n, ncclFloat32, communicator_.get(), stream));
    const auto blocks = static_cast<unsigned>((n + kAddThreads - 1) / kAddThreads);
    launch(add_ranks, blocks, kAddThreads, 0, stream, parts_.as<float>(), ranks_, y.rows * y.cols, y.data);
  }

  /// From any thread: whoever waits in a collective gets an error.
  void abort() {
    if (!aborted_.exchange(true)) ncclCommAbort(communicator_.release());
  }

 private:
  const int rank_, ranks_;
  NcclCommunicator communicator_;
  std::atomic<bool> aborted_{false};
  CudaBackend* backend_ = nullptr;
  Scratch parts_;
};

class NcclGroup final : public RankGroup {
 public:
  NcclGroup(int first_device, int ranks) {
    std::vector<int> devices;
    for (int r = 0; r < ranks; ++r) devices.push_back(first_device + r);
    std::vector<ncclComm_t> communicators(devices.size());
    check_nccl(ncclCommInitAll(communicators.data(), ranks, devices.data()));
    for (int r = 0; r < ranks; ++r)
      ranks_.push_back(std::make_unique<NcclRank>(r, ranks, communicators[static_cast<std::size_t>(r)]));
  }

  Communicator& rank(int rank) override { return *ranks_[static_cast<std::size_t>(rank)]; }
  void abandon() override {
    for (const auto& rank : ranks_) rank->abort();
  }

 private:
  std::vector<std::unique_ptr<NcclRank>> ranks_;
};

}  // namespace

std::unique_ptr<RankGroup> make_nccl_group(int first_device, int ranks) {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  if (first_device + ranks > count) {
    throw std::invalid_argument("tensor parallel " + std::to_string(ranks) +
                                " needs as many CUDA devices; this machine has " + std::to_string(count));
  }
  return std::make_unique<NcclGroup>(first_device, ranks);
}

}  // namespace grokd::kernels::cuda

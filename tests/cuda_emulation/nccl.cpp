#include <nccl.h>

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/thread_group.h"

namespace cuda_emulation {

/// What the ranks of one group share; the last that goes takes it along.
struct NcclGroup {
  explicit NcclGroup(int ranks) : barrier(ranks), from(static_cast<std::size_t>(ranks)) {}
  grokd::kernels::GroupBarrier barrier;
  std::vector<const void*> from;
};

struct NcclRank {
  std::shared_ptr<NcclGroup> group;
  std::size_t rank;
};

}  // namespace cuda_emulation

using cuda_emulation::NcclGroup, cuda_emulation::NcclRank;

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "a rank of the group has failed";
}

ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int*) {
  const auto group = std::make_shared<NcclGroup>(count);
  for (int r = 0; r < count; ++r) communicators[r] = new NcclRank{group, static_cast<std::size_t>(r)};
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->group->barrier.abandon();
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t,
                           ncclComm_t communicator, cudaStream_t stream) {
  try {
    cuda_emulation::enqueue(stream, [=, group = communicator->group, rank = communicator->rank] {
      group->from[rank] = from;
      group->barrier.arrive_and_wait();
      const std::size_t bytes = count * sizeof(float);
      for (std::size_t r = 0; r < group->from.size(); ++r)
        std::memcpy(static_cast<std::byte*>(to) + r * bytes, group->from[r], bytes);
      group->barrier.arrive_and_wait();
    });
  } catch (const grokd::kernels::GroupBroken&) {
    return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

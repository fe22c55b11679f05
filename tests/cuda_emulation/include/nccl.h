#pragma once
// Stands in for NCCL's header where kernels/cuda is compiled as plain C++: ranks are threads of this process.

#include <cstddef>

#include "tests/cuda_emulation/runtime.h"

enum ncclResult_t { ncclSuccess = 0, ncclUnhandledCudaError = 1 };
enum ncclDataType_t { ncclFloat32 = 7 };

namespace cuda_emulation {
struct NcclRank;
}  // namespace cuda_emulation
using ncclComm_t = cuda_emulation::NcclRank*;

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int* devices);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
/// Waits for all ranks: what the real one does on the device's time happens here at once.
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream);

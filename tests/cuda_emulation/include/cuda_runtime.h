#pragma once
// Stands in for NVIDIA's header where kernels/cuda is compiled as plain C++.

#include "tests/cuda_emulation/device.h"
#include "tests/cuda_emulation/mma.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/shared_array.h"

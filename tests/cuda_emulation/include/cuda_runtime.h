#pragma once
// Stands in for NVIDIA's header where kernels/cuda is compiled as plain C++.

#include "tests/cuda_emulation/device.h"   // IWYU pragma: export
#include "tests/cuda_emulation/runtime.h"  // IWYU pragma: export

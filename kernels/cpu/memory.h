#pragma once
// Memory of the CPU backend.

#include <cstddef>

#include "kernels/buffer.h"

namespace grokd::kernels {

/// Zeroed and 64-byte aligned; large blocks lie on huge pages where the system grants them. Throws
/// std::bad_alloc.
Buffer allocate_memory(std::size_t bytes);

/// What a block of `bytes` really takes.
std::size_t memory_taken(std::size_t bytes);

}  // namespace grokd::kernels

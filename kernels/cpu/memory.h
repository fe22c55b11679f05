#pragma once
// Memory of the CPU backend.

#include <cstddef>
#include <string>

#include "kernels/buffer.h"

namespace grokd::kernels {

/// Zeroed and 64-byte aligned; large blocks lie on huge pages where the system grants them. Throws
/// std::bad_alloc.
Buffer allocate_memory(std::size_t bytes);

/// Locks a block in memory. Returns what the system refuses, locking or huge pages; "" if nothing.
std::string pin_memory(const Buffer& memory);

/// What a block of `bytes` really takes.
std::size_t memory_taken(std::size_t bytes);

}  // namespace grokd::kernels

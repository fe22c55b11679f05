#pragma once
// Counts every allocation of the program: to be included by one source file of a test program only.

#include <atomic>
#include <cstdlib>
#include <new>

namespace grokd::test {
inline std::atomic<long> allocations{0};
}

// Not inlined: the compiler would see malloc and delete.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++grokd::test::allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

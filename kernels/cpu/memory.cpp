#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <system_error>

namespace grokd::kernels {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmall = std::size_t{1} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

Buffer allocate_small(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, 64);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (!data) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return Buffer(data, bytes, [](std::byte* p) { std::free(p); });
}

/// A mapping that starts on a huge page: one page more is mapped, what lies outside is given back.
Buffer allocate_huge(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, kHugePage);
  void* mapped =
      mmap(nullptr, rounded + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const auto base = reinterpret_cast<std::uintptr_t>(mapped);
  const std::size_t head = round_up(base, kHugePage) - base;
  if (head != 0) munmap(mapped, head);
  auto* data = reinterpret_cast<std::byte*>(base + head);
  munmap(data + rounded, kHugePage - head);
  madvise(data, rounded, MADV_HUGEPAGE);
  return Buffer(data, bytes, [rounded](std::byte* p) { munmap(p, rounded); });
}

}  // namespace

std::string pin_memory(const Buffer& memory) {
  std::string refused;
  if (mlock(memory.data(), memory.bytes()) != 0) {
    refused = std::to_string((memory.bytes() >> 20) + 1) +
              " MiB cannot be locked in memory (ulimit -l): " + std::generic_category().message(errno);
  }
  std::string mode;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), mode);
  if (mode.find("[never]") != std::string::npos) {
    refused += refused.empty() ? "" : "; ";
    refused += "the system has no transparent huge pages";
  }
  return refused;
}

std::size_t memory_taken(std::size_t bytes) { return round_up(bytes, bytes < kSmall ? 64 : kHugePage); }

Buffer allocate_memory(std::size_t bytes) {
  if (bytes == 0) bytes = 64;
  return bytes < kSmall ? allocate_small(bytes) : allocate_huge(bytes);
}

}  // namespace grokd::kernels

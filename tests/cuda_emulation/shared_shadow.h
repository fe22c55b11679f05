#pragma once
// Who touched which element of shared memory last, and since which barrier: finds races.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulation {

/// One access: by which thread, after which barrier of the block and which meeting of the warp.
struct Access {
  std::uint32_t epoch = 0, warp_epoch = 0;
  std::uint16_t thread = 0;
};

class SharedShadow {
 public:
  /// A block begins: what was written before is no longer there.
  void start(std::size_t bytes, std::uint32_t epoch);
  /// Throw KernelFault for a race or for a read of what nobody wrote.
  void read(std::size_t offset, const Access& now);
  void write(std::size_t offset, const Access& now, bool atomic);

 private:
  struct Entry {
    Access writer, reader;
    bool many_warps_read = false, many_lanes_read = false, atomic = false;
  };
  /// True if a barrier or a meeting of the warp lies between the two, or they are of one thread.
  static bool ordered(const Access& before, const Access& now);

  std::vector<Entry> entries_;
  std::uint32_t first_epoch_ = 0;
};

}  // namespace cuda_emulation

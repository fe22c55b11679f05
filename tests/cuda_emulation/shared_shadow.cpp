#include "tests/cuda_emulation/shared_shadow.h"

#include "tests/cuda_emulation/block.h"

namespace cuda_emulation {
namespace {

[[noreturn]] void fail(const char* what, std::size_t offset, const Access& before, const Access& now) {
  throw KernelFault(std::string(what) + " in shared memory at byte " + std::to_string(offset) + ": thread " +
                    std::to_string(before.thread) + ", then thread " + std::to_string(now.thread) +
                    " with no barrier between");
}

}  // namespace

void SharedShadow::start(std::size_t bytes, std::uint32_t epoch) {
  if (entries_.size() < bytes) entries_.resize(bytes);
  first_epoch_ = epoch;
}

bool SharedShadow::ordered(const Access& before, const Access& now) {
  if (before.epoch != now.epoch || before.thread == now.thread) return true;
  return before.thread / kWarp == now.thread / kWarp && before.warp_epoch < now.warp_epoch;
}

void SharedShadow::read(std::size_t offset, const Access& now) {
  Entry& entry = entries_[offset];
  if (entry.writer.epoch < first_epoch_)
    throw KernelFault("shared memory at byte " + std::to_string(offset) + " is read before it is written");
  if (!ordered(entry.writer, now)) fail("write and read", offset, entry.writer, now);
  const Access& last = entry.reader;
  if (last.epoch == now.epoch) {
    if (last.thread / kWarp != now.thread / kWarp) entry.many_warps_read = true;
    const bool together = last.warp_epoch == now.warp_epoch;
    entry.many_lanes_read = together && (entry.many_lanes_read || last.thread != now.thread);
  } else {
    entry.many_warps_read = entry.many_lanes_read = false;
  }
  entry.reader = now;
}

void SharedShadow::write(std::size_t offset, const Access& now, bool atomic) {
  Entry& entry = entries_[offset];
  const bool both_atomic = atomic && entry.atomic;
  if (entry.writer.epoch >= first_epoch_ && !both_atomic && !ordered(entry.writer, now))
    fail("two writes", offset, entry.writer, now);
  if (entry.reader.epoch == now.epoch) {
    const bool others = entry.many_warps_read ||
                        (entry.many_lanes_read && entry.reader.warp_epoch == now.warp_epoch) ||
                        !ordered(entry.reader, now);
    if (others) fail("read and write", offset, entry.reader, now);
  }
  entry.writer = now;
  entry.atomic = atomic;
}

}  // namespace cuda_emulation

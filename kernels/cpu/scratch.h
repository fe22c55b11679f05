#pragma once
// Working memory of ops: taken once for the largest step, cut up anew by each op.

#include <cstddef>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/memory.h"

namespace grokd::kernels {

/// Hands out consecutive 64-byte aligned pieces. Without memory it only adds up what would be needed.
class Carver {
 public:
  explicit Carver(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  T* take(std::size_t count) {
    std::byte* piece = memory_ ? memory_ + used_ : nullptr;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

/// One block shared by all threads and one for each thread.
class Scratch {
 public:
  explicit Scratch(int threads) : own_(static_cast<std::size_t>(threads)) {}

  /// Grow only; a step within the reserved limits never grows.
  void reserve_shared(std::size_t bytes) { grow(shared_, bytes); }
  void reserve_own(std::size_t bytes) {
    for (Buffer& buffer : own_) grow(buffer, bytes);
  }
  Carver shared() const { return Carver(shared_.data()); }
  Carver own(int thread) const { return Carver(own_[static_cast<std::size_t>(thread)].data()); }

 private:
  static void grow(Buffer& buffer, std::size_t bytes) {
    if (buffer.bytes() < bytes) buffer = allocate_memory(bytes);
  }

  Buffer shared_;
  std::vector<Buffer> own_;
};

/// Lays out a struct of scratch pieces made by `Pieces(Carver&, arguments...)` without memory: its size in
/// bytes.
template <class Pieces, class... Arguments>
std::size_t bytes_of(const Arguments&... arguments) {
  Carver carver;
  Pieces(carver, arguments...);
  return carver.used();
}

}  // namespace grokd::kernels

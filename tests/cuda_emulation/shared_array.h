#pragma once
// Arrays in shared memory whose every access is checked for bounds and races.

#include <cstddef>
#include <string>

#include "tests/cuda_emulation/block.h"

namespace cuda_emulation {

template <class T>
class SharedArray {
 public:
  class Element {
   public:
    Element(T* at, std::size_t offset) : at_(at), offset_(offset) {}
    operator T() const {
      Machine::current().note_read(offset_);
      return *at_;
    }
    Element& operator=(T value) {
      Machine::current().note_write(offset_);
      *at_ = value;
      return *this;
    }
    Element& operator=(const Element& other) { return *this = static_cast<T>(other); }
    Element(const Element&) = default;
    T* atomic() const {
      Machine::current().note_atomic(offset_);
      return at_;
    }

   private:
    T* at_;
    std::size_t offset_;
  };

  SharedArray() = default;
  SharedArray(std::size_t offset, std::size_t count) : offset_(offset), count_(count) {}
  Element operator[](std::ptrdiff_t i) const {
    if (i < 0 || static_cast<std::size_t>(i) >= count_)
      throw KernelFault("index " + std::to_string(i) + " of a shared array of " + std::to_string(count_));
    const std::size_t offset = offset_ + static_cast<std::size_t>(i) * sizeof(T);
    return {reinterpret_cast<T*>(Machine::current().shared_memory() + offset), offset};
  }
  /// The elements from `first` on.
  SharedArray from(std::ptrdiff_t first) const {
    return {offset_ + static_cast<std::size_t>(first) * sizeof(T), count_ - static_cast<std::size_t>(first)};
  }

 private:
  std::size_t offset_ = 0, count_ = 0;
};

/// Cuts the block's shared memory into arrays; every thread makes the same cuts.
class SharedMemory {
 public:
  template <class T>
  SharedArray<T> take(std::size_t count) {
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    const SharedArray<T> array(used_, count);
    used_ += count * sizeof(T);
    if (used_ > Machine::current().shape().shared_bytes)
      throw KernelFault("the block takes " + std::to_string(used_) + " bytes of shared memory, but has " +
                        std::to_string(Machine::current().shape().shared_bytes));
    return array;
  }

 private:
  std::size_t used_ = 0;
};

}  // namespace cuda_emulation

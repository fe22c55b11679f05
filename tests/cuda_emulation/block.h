#pragma once
// Runs the blocks of a grid one after another; the threads of a block are fibers that switch only where they
// wait for each other. One machine for each thread of the host.

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda_emulation/shared_shadow.h"
#include "tests/cuda_emulation/vector_types.h"

namespace cuda_emulation {

inline constexpr int kWarp = 32;

/// What a kernel does wrong: a race, an access outside an array, a barrier that not all reach.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

class Machine {
 public:
  static Machine& current();

  /// For tests of the checks: the barrier that each thread of a block meets as its index-th is left out; < 0:
  /// none.
  void leave_out_barrier(int index) { left_out_ = index; }
  /// Barriers that the last block met.
  int barriers() const { return threads_.empty() ? 0 : threads_[0].barriers; }

  /// Calls `body` once for every thread of the grid. Throws what a thread threw, or KernelFault.
  void run(const LaunchShape& shape, const std::function<void()>& body);

  // For the thread that is running.
  uint3 thread_index() const { return threads_[running_].index; }
  uint3 block_index() const { return block_index_; }
  const LaunchShape& shape() const { return shape_; }
  int lane() const { return static_cast<int>(running_) % kWarp; }
  void wait_for_block();
  /// All lanes of `mask` bring a value; the last one calls `compute(inputs, outputs)`, entries by lane.
  using Compute = void (*)(unsigned mask, const void* const* inputs, void* const* outputs);
  void meet(unsigned mask, const char* what, Compute compute, const void* input, void* output);
  std::byte* shared_memory() { return shared_.data(); }
  void note_read(std::size_t offset) { shadow_.read(offset, access()); }
  void note_write(std::size_t offset) { shadow_.write(offset, access(), false); }
  void note_atomic(std::size_t offset) { shadow_.write(offset, access(), true); }

 private:
  enum class State : std::uint8_t { ready, at_barrier, at_meeting, done };
  struct Thread {
    boost::context::fiber fiber;
    State state = State::done;
    uint3 index;
    int barriers = 0;  // met in this block
  };
  struct Meeting {
    unsigned mask = 0, arrived = 0;
    const char* what = "";
    std::array<const void*, kWarp> inputs{};
    std::array<void*, kWarp> outputs{};
  };

  void run_block(const std::function<void()>& body);
  void prepare(std::size_t threads);
  boost::context::fiber make_fiber();
  void resume(std::size_t thread);
  void yield(State state);
  bool release_barrier();
  Access access() const;
  [[noreturn]] void fail(const std::string& what);

  std::vector<Thread> threads_;
  std::vector<Meeting> meetings_;  // of each warp
  std::vector<std::uint32_t> warp_epochs_;
  std::vector<std::byte> shared_;
  SharedShadow shadow_;
  LaunchShape shape_;
  uint3 block_index_;
  std::size_t count_ = 0, running_ = 0;
  int left_out_ = -1;
  std::uint32_t epoch_ = 0;  // grows at every barrier and with every block
  const std::function<void()>* body_ = nullptr;
  boost::context::fiber main_;
  std::exception_ptr error_;
};

}  // namespace cuda_emulation

#include "tests/cuda_emulation/block.h"

#include <algorithm>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>

namespace cuda_emulation {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kMostSharedBytes = 227 << 10;

}  // namespace

Machine& Machine::current() {
  thread_local Machine machine;
  return machine;
}

void Machine::fail(const std::string& what) { throw KernelFault(what); }

Access Machine::access() const {
  return {epoch_, warp_epochs_[running_ / kWarp], static_cast<std::uint16_t>(running_)};
}

void Machine::run(const LaunchShape& shape, const std::function<void()>& body) {
  const unsigned threads = shape.block.x * shape.block.y * shape.block.z;
  if (threads == 0 || threads > kMostThreads)
    fail("a block of " + std::to_string(threads) + " threads cannot be launched");
  if (shape.shared_bytes > kMostSharedBytes)
    fail("a block with " + std::to_string(shape.shared_bytes) + " bytes of shared memory cannot be launched");
  if (shape.grid.y > 65535 || shape.grid.z > 65535) fail("a grid is too large in y or z");
  shape_ = shape;
  body_ = &body;
  prepare(threads);
  for (unsigned z = 0; z < shape.grid.z; ++z) {
    for (unsigned y = 0; y < shape.grid.y; ++y) {
      for (unsigned x = 0; x < shape.grid.x; ++x) {
        block_index_ = {x, y, z};
        run_block(body);
      }
    }
  }
}

void Machine::prepare(std::size_t threads) {
  count_ = threads;
  if (threads_.size() < threads) threads_.resize(threads);
  const dim3 block = shape_.block;
  for (std::size_t t = 0; t < threads; ++t) {
    const auto i = static_cast<unsigned>(t);
    threads_[t].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    if (!threads_[t].fiber) threads_[t].fiber = make_fiber();
  }
  const std::size_t warps = (threads + kWarp - 1) / kWarp;
  meetings_.assign(warps, {});
  warp_epochs_.assign(warps, 0);
  shared_.resize(std::max(shared_.size(), shape_.shared_bytes));
}

/// A fiber that runs one thread after another.
boost::context::fiber Machine::make_fiber() {
  return {std::allocator_arg, boost::context::protected_fixedsize_stack(kStackBytes),
          [this](boost::context::fiber&& main) {
            main_ = std::move(main);
            for (;;) {
              try {
                (*body_)();
              } catch (const std::exception&) {
                error_ = std::current_exception();
              }
              yield(State::done);
            }
            return std::move(main_);
          }};
}

void Machine::yield(State state) {
  threads_[running_].state = state;
  main_ = std::move(main_).resume();
}

void Machine::resume(std::size_t thread) {
  running_ = thread;
  threads_[thread].fiber = std::move(threads_[thread].fiber).resume();
  if (!error_) return;
  for (Thread& each : threads_) {  // the others stay where they are: their stacks are unwound
    if (each.state != State::done && &each != &threads_[thread]) each.fiber = {};
    each.state = State::done;
  }
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Machine::run_block(const std::function<void()>&) {
  ++epoch_;
  shadow_.start(shape_.shared_bytes, epoch_);
  for (std::size_t t = 0; t < count_; ++t) threads_[t].state = State::ready, threads_[t].barriers = 0;
  for (Meeting& meeting : meetings_) meeting.arrived = 0;
  for (bool alive = true; alive;) {
    bool moved = false;
    for (std::size_t t = 0; t < count_; ++t) {
      if (threads_[t].state != State::ready) continue;
      resume(t);
      moved = true;
    }
    if (moved) continue;
    alive = release_barrier();
  }
}

/// All that are left wait at the barrier: they go on. False if none is left.
bool Machine::release_barrier() {
  bool any = false;
  for (std::size_t t = 0; t < count_; ++t) {
    Thread& thread = threads_[t];
    if (thread.state == State::done) continue;
    any = true;
    if (thread.state == State::at_barrier) continue;
    const std::string what = meetings_[t / kWarp].what;
    for (std::size_t i = 0; i < count_; ++i) threads_[i].fiber = {}, threads_[i].state = State::done;
    fail("thread " + std::to_string(t) + " waits in " + what + " for lanes that never come");
  }
  ++epoch_;
  for (std::size_t t = 0; t < count_; ++t) {
    if (threads_[t].state == State::at_barrier) threads_[t].state = State::ready;
  }
  return any;
}

void Machine::wait_for_block() {
  if (threads_[running_].barriers++ != left_out_) yield(State::at_barrier);
}

void Machine::meet(unsigned mask, const char* what, Compute compute, const void* input, void* output) {
  const std::size_t warp = running_ / kWarp;
  Meeting& meeting = meetings_[warp];
  const int self = lane();
  if ((mask >> self & 1) == 0) fail(std::string(what) + ": the mask lacks the lane that calls");
  if (meeting.arrived == 0) {
    meeting.mask = mask;
    meeting.what = what;
  } else if (meeting.mask != mask || std::strcmp(meeting.what, what) != 0) {
    fail(std::string(what) + ": other lanes of the warp are in " + meeting.what + " or differ in the mask");
  }
  meeting.inputs[static_cast<std::size_t>(self)] = input;
  meeting.outputs[static_cast<std::size_t>(self)] = output;
  meeting.arrived |= 1u << self;
  if (meeting.arrived != mask) return yield(State::at_meeting);
  compute(mask, meeting.inputs.data(), meeting.outputs.data());
  meeting.arrived = 0;
  ++warp_epochs_[warp];
  for (int l = 0; l < kWarp; ++l) {
    if (l != self && (mask >> l & 1) != 0)
      threads_[warp * kWarp + static_cast<std::size_t>(l)].state = State::ready;
  }
}

}  // namespace cuda_emulation

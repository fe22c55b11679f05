#pragma once
// The ranks of a tensor-parallel group as threads of one process.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/communicator.h"

namespace grokd::kernels {

/// Everyone waits for everyone: spins for a bounded time, then sleeps.
class GroupBarrier {
 public:
  explicit GroupBarrier(int members) : members_(members) {}
  /// Throws GroupBroken once `abandon` was called.
  void arrive_and_wait();
  /// Nobody waits from now on.
  void abandon();

 private:
  const int members_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> abandoned_{false};
};

class ThreadGroup final : public RankGroup {
 public:
  explicit ThreadGroup(int ranks);
  int size() const { return static_cast<int>(vectors_.size()); }
  Communicator& rank(int rank) override { return *communicators_[static_cast<std::size_t>(rank)]; }
  /// The others get GroupBroken.
  void abandon() override { barrier_.abandon(); }

 private:
  class Rank;
  /// Each rank adds its share of the elements and puts the sum into the vectors of all.
  void sum(int rank, MatrixView<float> y);

  GroupBarrier barrier_;
  std::vector<MatrixView<float>> vectors_;  // what each rank brings to the sum
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace grokd::kernels

#include "kernels/thread_group.h"

#include <algorithm>
#include <thread>

namespace grokd::kernels {
namespace {

constexpr int kSpins = 2000;
constexpr std::ptrdiff_t kBlock = 256;  // elements whose sums of all ranks stay in the nearest cache

/// sums[0] = tree over sums[0 .. ranks - 1], each `count` long (docs/numerics.md, section 4).
void add_tree(float (*sums)[kBlock], int ranks, std::ptrdiff_t count) {
  for (int distance = 1; distance < ranks; distance *= 2) {
    for (int r = 0; r < ranks; r += 2 * distance) {
      for (std::ptrdiff_t i = 0; i < count; ++i) sums[r][i] = sums[r][i] + sums[r + distance][i];
    }
  }
}

constexpr int kMostRanks = 64;

}  // namespace

void GroupBarrier::arrive_and_wait() {
  const std::uint32_t round = round_.load(std::memory_order_acquire);
  if (abandoned_.load(std::memory_order_acquire)) throw GroupBroken("a rank of the group has failed");
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  for (int spin = 0; spin < kSpins && round_.load(std::memory_order_acquire) == round; ++spin) {
    if (spin % 64 == 63) std::this_thread::yield();
  }
  while (round_.load(std::memory_order_acquire) == round) round_.wait(round, std::memory_order_acquire);
  if (abandoned_.load(std::memory_order_acquire)) throw GroupBroken("a rank of the group has failed");
}

void GroupBarrier::abandon() {
  abandoned_.store(true, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

class ThreadGroup::Rank final : public Communicator {
 public:
  Rank(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  void sum(MatrixView<float> y) override { group_.sum(rank_, y); }

 private:
  ThreadGroup& group_;
  const int rank_;
};

ThreadGroup::ThreadGroup(int ranks) : barrier_(ranks), vectors_(static_cast<std::size_t>(ranks)) {
  if (ranks < 1 || ranks > kMostRanks || (ranks & (ranks - 1)) != 0) {
    throw std::invalid_argument("a group has 1, 2, 4, ... " + std::to_string(kMostRanks) + " ranks, not " +
                                std::to_string(ranks));
  }
  for (int r = 0; r < ranks; ++r) communicators_.push_back(std::make_unique<Rank>(*this, r));
}

void ThreadGroup::sum(int rank, MatrixView<float> y) {
  if (size() == 1) return;
  vectors_[static_cast<std::size_t>(rank)] = y;
  barrier_.arrive_and_wait();
  const std::ptrdiff_t elements = y.rows * y.cols;
  const std::ptrdiff_t first = elements * rank / size(), end = elements * (rank + 1) / size();
  float sums[kMostRanks][kBlock];
  for (std::ptrdiff_t at = first; at < end;) {
    const std::ptrdiff_t row = at / y.cols, column = at % y.cols;
    const std::ptrdiff_t count = std::min({kBlock, end - at, y.cols - column});
    for (int r = 0; r < size(); ++r)
      std::copy_n(vectors_[static_cast<std::size_t>(r)].row(row) + column, count, sums[r]);
    add_tree(sums, size(), count);
    for (const MatrixView<float>& all : vectors_) std::copy_n(sums[0], count, all.row(row) + column);
    at += count;
  }
  barrier_.arrive_and_wait();
}

}  // namespace grokd::kernels

#include "kernels/thread_group.h"

#include <algorithm>
#include <thread>

#include "kernels/rank_tree.h"

namespace grokd::kernels {
namespace {

constexpr int kSpins = 2000;

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
  check_rank_count(ranks);
  for (int r = 0; r < ranks; ++r) communicators_.push_back(std::make_unique<Rank>(*this, r));
}

void ThreadGroup::sum(int rank, MatrixView<float> y) {
  if (size() == 1) return;
  vectors_[static_cast<std::size_t>(rank)] = y;
  barrier_.arrive_and_wait();
  const std::ptrdiff_t elements = y.rows * y.cols;
  const std::ptrdiff_t first = elements * rank / size(), end = elements * (rank + 1) / size();
  const float* parts[kMostRanks];
  for (std::ptrdiff_t at = first; at < end;) {
    const std::ptrdiff_t row = at / y.cols, column = at % y.cols, count = std::min(end - at, y.cols - column);
    for (int r = 0; r < size(); ++r) parts[r] = vectors_[static_cast<std::size_t>(r)].row(row) + column;
    float* sum = y.row(row) + column;
    add_rank_tree(parts, size(), count, sum);
    for (const MatrixView<float>& all : vectors_) {
      if (all.data != y.data) std::copy_n(sum, count, all.row(row) + column);
    }
    at += count;
  }
  barrier_.arrive_and_wait();
}

}  // namespace grokd::kernels

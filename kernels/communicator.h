#pragma once
// Sums over the ranks of a tensor-parallel group (docs/numerics.md, section 4: all-gather and the tree).

#include <cstddef>
#include <span>
#include <stdexcept>

#include "kernels/tensor.h"

namespace grokd::kernels {

class Backend;
/// What a rank meets in a collective that another rank does not join (in time).
struct GroupBroken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// y = tree over the ranks' y, the same on every rank.
  virtual void sum(MatrixView<float> y) = 0;
  /// Rank 0's values (host) to all. Ranks of one process compute the same values with the same libm.
  virtual void broadcast(std::span<float>) {}
  /// Tells a rank once, before its first sum, whose memory it will sum and how many floats at most.
  virtual void attach(Backend&, std::size_t /*floats*/) {}
};

/// All ranks of a group, in one process.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  /// For the thread that is this rank; lives as long as the group.
  virtual Communicator& rank(int rank) = 0;
  /// A rank that cannot go on calls this: the others get an error instead of waiting for it.
  virtual void abandon() = 0;
};

/// A group of one.
class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(MatrixView<float>) override {}
};

}  // namespace grokd::kernels

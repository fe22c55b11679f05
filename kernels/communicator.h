#pragma once
// Sums over the ranks of a tensor-parallel group (docs/numerics.md, section 4: all-gather and the tree).

#include <span>
#include <stdexcept>

#include "kernels/tensor.h"

namespace grokd::kernels {

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
};

/// A group of one.
class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(MatrixView<float>) override {}
};

}  // namespace grokd::kernels

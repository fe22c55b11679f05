#pragma once
// The ranks of a tensor-parallel group as processes, on one host or several. Besides sums they exchange
// messages: rank 0 tells the others what to do.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/communicator.h"

namespace grokd::kernels {

using Words = std::vector<std::int32_t>;

/// One thread at a time. Every call throws GroupBroken, naming the ranks, when others do not do their part in
/// time, and from then on at once.
class ProcessGroup : public Communicator {
 public:
  enum class Wait { bounded, forever };  // forever: while models load

  virtual int ranks_here() const = 0;  // on this host
  virtual std::chrono::milliseconds timeout() const = 0;
  /// Rank 0: to all others.
  virtual void send(std::span<const std::int32_t> message) = 0;
  /// All others: the next message of rank 0, at most `capacity` words.
  virtual void receive(Words& message, std::size_t capacity, Wait wait) = 0;
  /// Every rank's text, by rank, on rank 0; nothing elsewhere.
  virtual std::vector<std::string> gather(const std::string& text, Wait wait) = 0;
  /// All ranks, in the end; without it the launcher takes the exit of one for a failure and ends the others.
  virtual void leave() = 0;
};

/// Joins the processes that `mpirun` launched this one with. Null: it was launched alone. Throws
/// std::runtime_error when there are others and this program can't reach them. On the main thread, before
/// there are others.
std::unique_ptr<ProcessGroup> join_process_group(std::chrono::milliseconds timeout);

/// How long Open MPI's launcher waits between SIGTERM and SIGKILL.
std::chrono::milliseconds launcher_grace();

/// Processes that Open MPI's launcher says it started, from the environment; 1 without it.
int launched_processes();

}  // namespace grokd::kernels

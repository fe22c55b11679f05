#pragma once
// What rank 0 tells the other processes of its group: a step's plan, word by word.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/batch.h"
#include "engine/model_runner.h"
#include "kernels/process_group.h"

namespace grokd {

enum class Order : std::int32_t { end, keep_alive, step };

/// A batch as other ranks need it: nothing of sampling, which is rank 0's. Owns the pages its batch points
/// to.
struct SteppedBatch {
  Batch batch;
  std::vector<std::int32_t> pages;
};

/// Most words of a step within the limits.
std::size_t longest_step_message(const RunnerLimits& limits);

/// Writes into `message`, whose storage is kept.
void write_order(Order order, kernels::Words& message);
void write_step(const Batch& batch, kernels::Words& message);

/// Throws std::runtime_error for what is no message.
Order read_order(const kernels::Words& message);
/// Of a message that is a step. Throws std::runtime_error where it does not agree with itself.
void read_step(const kernels::Words& message, SteppedBatch& step);

}  // namespace grokd

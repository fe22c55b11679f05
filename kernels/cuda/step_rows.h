#pragma once
// The rows of a step's sequences as the kernels see them: one entry a row, and the pages of all sequences.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace grokd::kernels::cuda {

struct StepRows {
  const std::int32_t* row = nullptr;         // [n] row in the matrices of the step
  const std::int32_t* position = nullptr;    // [n]
  const std::int32_t* first_page = nullptr;  // [n] where the sequence's pages begin in `pages`
  const std::int32_t* pages = nullptr;
  int count = 0;
  int longest = 0;  // positions that a row can see at most

  __device__ std::int32_t page(int entry, int block) const { return pages[first_page[entry] + block]; }
};

}  // namespace grokd::kernels::cuda

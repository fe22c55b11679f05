#pragma once
// The rows of a step sorted by expert, made on the device: each expert's rows lie together, padded to whole
// sets, and a set never mixes experts.

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/layout.h"

namespace grokd::kernels::cuda {

inline constexpr int kMostSetRows = 32;
inline constexpr int kMostExperts = 256;  // their addresses travel as arguments of the kernels

/// Where things lie in the memory of one order. A choice is one (token, expert) pair; a row is one of them in
/// its sorted place, or a pad.
struct ExpertOrder {
  std::int32_t* row_of = nullptr;      // [choices] the row of a choice; -1: skipped
  std::int32_t* token_of = nullptr;    // [rows] the token of a row; -1: a pad
  std::int32_t* set_expert = nullptr;  // [sets] the expert of a set of rows
  std::int32_t* set_count = nullptr;   // [1] sets in use

  static constexpr int most_sets(int choices, int experts, int set_rows) {
    // Each expert in use wastes less than one set, and no set is empty.
    const int whole = choices / set_rows, used = experts < choices ? experts : choices;
    return whole + used;
  }
  static constexpr std::size_t bytes(int choices, int sets, int set_rows) {
    return sizeof(std::int32_t) *
           (static_cast<std::size_t>(choices) +
            static_cast<std::size_t>(sets) * static_cast<std::size_t>(set_rows + 1) + 1);
  }
  static ExpertOrder at(std::byte* memory, int choices, int sets, int set_rows) {
    auto* first = reinterpret_cast<std::int32_t*>(memory);
    return {first, first + choices, first + choices + static_cast<std::ptrdiff_t>(sets) * set_rows,
            first + choices + static_cast<std::ptrdiff_t>(sets) * (set_rows + 1)};
  }
};

}  // namespace grokd::kernels::cuda

#pragma once
// Philox 4x32-10: a counter-based random generator (Salmon et al., 2011). No state.

#include <array>
#include <cstdint>

namespace grokd::kernels {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

}  // namespace grokd::kernels

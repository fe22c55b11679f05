#pragma once
// What several ops share: the 64-lane sum, the tree, the quantiser, the norm (docs/numerics.md).

#include <cstddef>
#include <cstdint>
#include <span>

namespace grokd::kernels::reference {

inline constexpr int kLanes = 64;
inline constexpr int kActivationCode = 32767;  // M of section 3
inline constexpr int kByteCode = 127;          // M of an int8 cache
inline constexpr int kHeadCode = 32639;        // M of the output embedding

/// l[j] += l[j + s] for s = 32, 16, ..., 1; gives l[0].
float sum_of_lanes(std::span<float, kLanes> lanes);

/// Sum of x[i] * y[i * y_stride] in 64 lanes.
float lanes_dot(std::span<const float> x, const float* y, std::ptrdiff_t y_stride = 1);

/// ((y0+y1)+(y2+y3))+...; the number of values is a power of two. Overwrites them.
float tree(std::span<float> values);

/// Q(x, limit): writes a code for each x and returns the scale (NaN: poisoned).
float quantise_row(std::span<const float> x, int limit, std::int16_t* codes);

/// y[i] = gain[i] * (x[i] * r).
void rms_norm(std::span<const float> x, const float* gain, float eps, float* y);

}  // namespace grokd::kernels::reference

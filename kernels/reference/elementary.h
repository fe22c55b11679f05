#pragma once
// The elementary functions of docs/numerics.md, section 2, one value at a time. Not inline on purpose: a file
// compiled for a wider instruction set must not leave its copy to the linker.

namespace grokd::kernels {

float exp_f32(float x);
float tanh_f32(float x);
/// x positive and normal.
double log_f64(double x);
/// 0.5u(1 + tanh(sqrt(2/pi)(u + 0.044715u^3))) in the form without cancellation.
float gelu_f32(float u);
float silu_f32(float u);
/// c * tanh(x / c); c = 0: x unchanged.
float soft_cap(float x, float c);

}  // namespace grokd::kernels

#include "kernels/cpu/simd_scalar.h"

namespace grokd::kernels {
namespace {
// No registers to fill.
constexpr int kScoreVectors = 1;
constexpr int kValueQueries = 2;
constexpr int kValueVectors = 1;
}  // namespace
}  // namespace grokd::kernels

#include "kernels/cpu/vector_kernels.inl"

namespace grokd::kernels {
extern const VectorKernels kVectorScalar;
const VectorKernels kVectorScalar = kTable;
}  // namespace grokd::kernels

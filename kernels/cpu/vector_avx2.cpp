#include "kernels/cpu/simd_avx2.h"

namespace grokd::kernels {
namespace {
// 16 registers, two to a vector: 8 hold the sums of two queries.
constexpr int kScoreVectors = 1;
constexpr int kValueQueries = 2;
constexpr int kValueVectors = 1;
}  // namespace
}  // namespace grokd::kernels

#include "kernels/cpu/vector_kernels.inl"

namespace grokd::kernels {
extern const VectorKernels kVectorAvx2;
const VectorKernels kVectorAvx2 = kTable;
}  // namespace grokd::kernels

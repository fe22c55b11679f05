#include "kernels/cpu/simd_avx512.h"

namespace grokd::kernels {
namespace {
// 32 registers: 16 hold the sums of two queries, 4 the keys or values.
constexpr int kScoreVectors = 4;
constexpr int kValueVectors = 4;
}  // namespace
}  // namespace grokd::kernels

#include "kernels/cpu/vector_kernels.inl"

namespace grokd::kernels {
extern const VectorKernels kVectorAvx512;
const VectorKernels kVectorAvx512 = kTable;
}  // namespace grokd::kernels

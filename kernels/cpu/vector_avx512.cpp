#include "kernels/cpu/simd_avx512.h"

namespace grokd::kernels {
namespace {
// 32 registers: 16 hold the sums of two queries' scores or of four queries' values.
constexpr int kScoreVectors = 4;
constexpr int kValueQueries = 4;
constexpr int kValueVectors = 2;
}  // namespace
}  // namespace grokd::kernels

#include "kernels/cpu/vector_kernels.inl"

namespace grokd::kernels {
extern const VectorKernels kVectorAvx512;
const VectorKernels kVectorAvx512 = kTable;
}  // namespace grokd::kernels

#include "tests/cuda_emulation/mma.h"

#include <cstring>

namespace cuda_emulation {
namespace {

template <class B>
void multiply(unsigned, const void* const* inputs, void* const* outputs) {
  std::int32_t a[16][32], b[8][32];
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto* input = static_cast<const MmaInput*>(inputs[lane]);
    std::int8_t a_bytes[16];
    B b_bytes[8];
    std::memcpy(a_bytes, input->a, sizeof(a_bytes));
    std::memcpy(b_bytes, input->b, sizeof(b_bytes));
    for (int i = 0; i < 16; ++i) a[mma_a_row(lane, i)][mma_a_col(lane, i)] = a_bytes[i];
    for (int i = 0; i < 8; ++i) b[mma_b_col(lane)][mma_b_row(lane, i)] = b_bytes[i];
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto* input = static_cast<const MmaInput*>(inputs[lane]);
    for (int i = 0; i < 4; ++i) {
      const std::int32_t* row = a[mma_c_row(lane, i)];
      const std::int32_t* column = b[mma_c_col(lane, i)];
      std::int32_t sum = 0;
      for (int k = 0; k < 32; ++k) sum += row[k] * column[k];
      // Wraps like the device, where no kernel may let it.
      const auto wrapped = static_cast<std::uint32_t>(input->c[i]) + static_cast<std::uint32_t>(sum);
      static_cast<int*>(outputs[lane])[i] = static_cast<int>(wrapped);
    }
  }
}

}  // namespace

void mma_m16n8k32(int (&c)[4], const int (&a)[4], const int (&b)[2], bool b_signed) {
  MmaInput input;
  std::memcpy(input.a, a, sizeof(a));
  std::memcpy(input.b, b, sizeof(b));
  std::memcpy(input.c, c, sizeof(c));
  Machine::current().meet(~0u, b_signed ? "mma.s8.s8" : "mma.s8.u8",
                          b_signed ? multiply<std::int8_t> : multiply<std::uint8_t>, &input, c);
}

}  // namespace cuda_emulation

#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace grokd::kernels {
namespace {

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

struct Choice {
  KernelTable table;
  bool available;
};

}  // namespace

KernelTable choose_kernels(std::string_view isa) {
  const Choice best_first[] = {
      {{"avx512", "cpu-avx512vnni", &kVectorAvx512, &kMatrixAvx512}, has_avx512()},
      {{"avx2", "cpu-avx2", &kVectorAvx2, &kMatrixAvx2}, has_avx2()},
      {{"scalar", "cpu-scalar", &kVectorScalar, &kMatrixScalar}, true},
  };
  if (const char* forced = std::getenv("GROKD_CPU_ISA"); isa.empty() && forced) isa = forced;
  for (const Choice& choice : best_first) {
    if (isa.empty() ? choice.available : choice.table.name == isa) {
      if (choice.available) return choice.table;
      throw std::invalid_argument("this machine lacks the instruction set " + std::string(isa));
    }
  }
  throw std::invalid_argument("unknown instruction set '" + std::string(isa) + "' (scalar, avx2 or avx512)");
}

}  // namespace grokd::kernels

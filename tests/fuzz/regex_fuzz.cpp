// Any bytes as a regular expression, then some tokens: an error or masks, never a crash or a stall.

#include "tests/fuzz/constraint_steps.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  grokd::fuzz::check_constraint(&grokd::GrammarCompiler::compile_regex,
                                {reinterpret_cast<const char*>(data), size});
  return 0;
}

// Any bytes as a JSON schema, then some tokens: an error or masks, never a crash or a stall.

#include "tests/fuzz/constraint_steps.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  grokd::fuzz::check_constraint(&grokd::GrammarCompiler::compile_json_schema,
                                {reinterpret_cast<const char*>(data), size});
  return 0;
}

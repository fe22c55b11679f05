#pragma once
// What a request's response_format, grammar or regex restricts its answers to.

#include <memory>

#include "api/common.h"
#include "engine/grammar/constraint.h"

namespace grokd {

/// Null if the answer is free. Throws ApiError naming the field when it cannot be used. Takes up to some 100
/// ms: for the worker pool.
std::shared_ptr<const CompiledGrammar> compile_constraint(const api::GenerationFields& fields,
                                                          GrammarCompiler& compiler);

}  // namespace grokd

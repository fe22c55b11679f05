#pragma once
// Decimal integers between two bounds.

#include <cstdint>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

inline constexpr std::int64_t kMaxInteger = 999'999'999'999'999'999;  // 18 digits

/// The JSON text of an integer of [min, max]; both within kMaxInteger in magnitude, min <= max. No "-0".
ExprId integer_in_range(Grammar& grammar, std::int64_t min, std::int64_t max);

}  // namespace grokd::grammar

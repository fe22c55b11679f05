#pragma once
// Classes of characters that the patterns of byte-level tokenizers tell apart.

namespace grokd {

enum class CharClass { letter, number, space, other };

/// \p{L}, \p{N}, \s, or none of them.
CharClass char_class(char32_t c);

}  // namespace grokd

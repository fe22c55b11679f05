#pragma once
// How byte-level tokenizers cut a text into words before they look for tokens.

#include <cstddef>
#include <string_view>

namespace grokd {

/// The pattern of Llama-3, Qwen and Grok-2:
///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}|
///   ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+| \s+(?!\S)|\s+
struct WordPattern {
  int digits = 3;
};

/// Bytes of the first word of a text that is not empty; at least 1.
std::size_t first_word(std::string_view text, const WordPattern& pattern);

}  // namespace grokd

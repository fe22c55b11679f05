#pragma once
// Broken and whole UTF-8. Broken bytes become one U+FFFD per maximal part that could have begun a character.

#include <cstddef>
#include <string>
#include <string_view>

namespace grokd::api {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Utf8Part {
  std::size_t bytes = 0;  // length of the character or of the broken part, at least 1
  bool valid = false;
  bool cut_off = false;  // broken only because the text ends here
};

/// The first character, or the first maximal broken part, of a text that is not empty.
Utf8Part first_utf8_part(std::string_view text);

bool is_valid_utf8(std::string_view text);
std::string replace_broken_utf8(std::string_view text);

/// Code points, broken parts counted as one each.
std::size_t count_code_points(std::string_view text);

/// Where each token's first byte falls in a text made of tokens, in code points. Bytes inside one character
/// share the offset of its first.
class TextOffsets {
 public:
  /// The offset of the first of these bytes, which go behind all bytes given before.
  std::size_t add(std::string_view bytes);

 private:
  std::string open_;  // a character begun but not finished, counted already
  std::size_t characters_ = 0;
};

}  // namespace grokd::api

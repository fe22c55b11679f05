#pragma once
// Bytes of tokens -> whole UTF-8 characters.

#include <string>
#include <string_view>

namespace grokd {

/// Joins bytes into characters as they come. Bytes that can no longer become a character are replaced at once
/// by U+FFFD, one for each maximal broken part (the practice of the WHATWG Encoding Standard).
class Detokenizer {
 public:
  void push(char byte, std::string& out);
  void push(std::string_view bytes, std::string& out) {
    for (const char byte : bytes) push(byte, out);
  }
  /// The unfinished character, if any, becomes U+FFFD.
  void flush(std::string& out);
  /// Bytes held back: the beginning of a character, 0..3.
  int pending() const { return size_; }
  /// True if the byte goes on with the character that is held back.
  bool joins(char byte) const;

 private:
  char held_[4] = {};
  int size_ = 0;
  int length_ = 0;  // of the character held back
};

/// The number of bytes of a character whose first byte is this, 0 if none begins with it.
int utf8_length(char first);

}  // namespace grokd

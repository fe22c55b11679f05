#pragma once
// Opcodes of protocol 4 in frames, cut exactly where CPython's pickler cuts them.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/output_file.h"

namespace grokd {

/// Writes the bytes of an array that start at `offset`; called with rising offsets.
using FillBytes = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

class PickleWriter {
 public:
  explicit PickleWriter(const std::string& path);

  /// Every value starts with this: a frame that is full ends here.
  void begin_value();
  void op(std::string_view bytes);
  void memoize() { op("\x94"), ++memo_size_; }
  void integer(std::uint32_t value);
  void minus_one();
  void constant(std::string_view opcode);
  /// A string; written once, recalled afterwards. Likewise the next two.
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);
  void short_bytes(std::string_view value);
  /// Large ones go past the frame, in pieces.
  void bytes(std::uint64_t size, const FillBytes& fill);
  /// A memoised tuple of the last one to three values, or since the last MARK.
  void tuple(std::size_t size);
  /// Ends the pickle; returns the size of the file.
  std::uint64_t finish();

 private:
  bool recall(const std::string& key);
  void remember(std::string key);
  void append(const void* data, std::size_t size);
  void end_frame();
  void stream(std::uint64_t size, const FillBytes& fill);

  OutputFile file_;
  std::vector<std::byte> frame_;
  std::map<std::string, std::uint8_t, std::less<>> memo_;
  std::uint32_t memo_size_ = 0;
};

}  // namespace grokd

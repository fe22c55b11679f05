#pragma once
// XXH3 (64 bits): finds damage, proves nothing to an adversary.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace grokd {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum(std::span<const std::byte> bytes);

/// 16 hexadecimal digits, and back; 0 for what is no number.
std::string checksum_text(std::uint64_t value);
std::uint64_t parse_checksum(const std::string& text);

}  // namespace grokd

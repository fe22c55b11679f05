#pragma once
// A file being written.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace grokd {

class OutputFile {
 public:
  /// Creates or truncates. Throws ConfigError naming the file, as do the others.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  /// `bytes` zeros, which take no space where the file system has holes; something must follow them.
  void skip(std::uint64_t bytes);
  std::uint64_t written() const { return written_; }
  void close();

 private:
  [[noreturn]] void fail() const;
  std::string path_;
  int fd_ = -1;
  std::uint64_t written_ = 0;
};

}  // namespace grokd

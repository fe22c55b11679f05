#pragma once
// A file being written.

#include <cstddef>
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
  void close();

 private:
  [[noreturn]] void fail() const;
  std::string path_;
  int fd_ = -1;
};

}  // namespace grokd

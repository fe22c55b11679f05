#pragma once
// A whole file mapped for reading.

#include <cstddef>
#include <span>
#include <string>

namespace grokd {

/// `count` runs of `bytes` bytes, `stride` bytes from one to the next.
struct ByteRows {
  const std::byte* data = nullptr;
  std::size_t bytes = 0, stride = 0, count = 1;
};

class MappedFile {
 public:
  MappedFile() = default;
  /// Throws ConfigError naming the file when it is missing, empty or not a regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// These rows will be read soon, from front to back, and nothing between them.
  void will_read(const ByteRows& rows) const;
  /// `part` is not needed for now: drops its whole pages from this process and from the page cache.
  void drop_pages(std::span<const std::byte> part) const;
  /// The whole file is not needed for now: drops its pages from this process and from the page cache.
  void drop_pages() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace grokd

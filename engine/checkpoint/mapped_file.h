#pragma once
// A whole file mapped for reading.

#include <cstddef>
#include <span>
#include <string>

namespace grokd {

class MappedFile {
 public:
  MappedFile() = default;
  /// Throws ConfigError naming the file when it is missing, empty or not a regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// The pages of `part` will be read soon, from front to back.
  void will_read(std::span<const std::byte> part) const;
  /// The whole file is not needed for now: drops its pages from this process and from the page cache.
  void drop_pages() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace grokd

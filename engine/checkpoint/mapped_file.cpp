#include "engine/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "engine/models/config.h"

namespace grokd {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw ConfigError(path + ": " + what + ": " + std::generic_category().message(errno));
}

void advise(std::span<const std::byte> part, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
  ::madvise(reinterpret_cast<void*>(first), end - first, advice);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const OpenFile file(path);
  struct stat info {};
  if (file.fd() < 0) fail(path, "cannot be opened");
  if (::fstat(file.fd(), &info) != 0) fail(path, "cannot be read");
  if (!S_ISREG(info.st_mode)) throw ConfigError(path + ": not a regular file");
  if (info.st_size == 0) throw ConfigError(path + ": the file is empty");
  const auto size = static_cast<std::size_t>(info.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (start == MAP_FAILED) fail(path, "cannot be mapped");
  data_ = static_cast<const std::byte*>(start);
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::will_read(const ByteRows& rows) const {
  if (rows.bytes == 0 || rows.count == 0) return;
  const bool one_run = rows.bytes == rows.stride || rows.count == 1;
  const std::size_t span = (rows.count - 1) * rows.stride + rows.bytes;
  // Hints only: a kernel that refuses them costs speed, nothing else.
  advise({rows.data, span}, one_run ? MADV_SEQUENTIAL : MADV_RANDOM);
  for (std::size_t i = 0; i < (one_run ? 1 : rows.count); ++i) {
    advise({rows.data + i * rows.stride, one_run ? span : rows.bytes}, MADV_WILLNEED);
  }
}

void MappedFile::drop_pages() const { drop_pages(bytes()); }

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  if (part.empty()) return;
  advise(part, MADV_DONTNEED);
  // Opened again rather than kept open: a checkpoint has more files than some systems allow descriptors.
  const OpenFile file(path_);
  if (file.fd() < 0) return;
  ::posix_fadvise(file.fd(), part.data() - data_, static_cast<off_t>(part.size()), POSIX_FADV_DONTNEED);
}

}  // namespace grokd

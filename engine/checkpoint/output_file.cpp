#include "engine/checkpoint/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "engine/models/config.h"

namespace grokd {

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail();
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail() const {
  throw ConfigError(path_ + ": cannot be written: " + std::generic_category().message(errno));
}

void OutputFile::write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail();
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::skip(std::uint64_t bytes) {
  if (::lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR) < 0) fail();
  written_ += bytes;
}

void OutputFile::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail();
}

}  // namespace grokd

#include "engine/checkpoint/packed_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine/checkpoint/checksum.h"
#include "engine/checkpoint/packed_file.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The first line of a journal: what is being written. Checksums of blocks are not in it.
std::string journal_head(const PackedTable& table) {
  return "grokd-pack " + checksum_text(checksum(bytes_of(table_text(table)))) + "\n";
}

}  // namespace

PackedWriter::PackedWriter(std::string path, PackedTable table)
    : path_(std::move(path)),
      part_(path_ + ".part"),
      journal_(path_ + ".journal"),
      table_(std::move(table)),
      written_(table_.entries.size()) {
  if (fs::exists(path_)) {
    const std::string other = difference(PackedFile(path_).table().identity, table_.identity);
    if (!other.empty()) throw ConfigError(path_ + ": exists already and " + other);
    whole_ = true;
    return;
  }
  open_part();
}

void PackedWriter::fail(const std::string& path) const {
  const int error = errno;
  std::string what = path + ": cannot be written: " + std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    what += " (" + std::to_string(table_.end()) +
            " bytes in all); what is done is kept, the same command goes on";
  throw ConfigError(what);
}

void PackedWriter::open_part() {
  const std::string head = journal_head(table_);
  std::ifstream journal(journal_);
  std::string first;
  std::getline(journal, first);
  const bool go_on = fs::exists(part_) && first + "\n" == head;
  fd_ = Descriptor(::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd_.open()) fail(part_);
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0)
    throw ConfigError(part_ + ": is being written by another process");
  if (!go_on && ::ftruncate(fd_.get(), 0) != 0) fail(part_);
  if (go_on) read_journal();
  journal_fd_ = Descriptor(
      ::open(journal_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (go_on ? 0 : O_TRUNC), 0644));
  if (!journal_fd_.open()) fail(journal_);
  // Without this, a journal cut off inside a line would swallow the next one.
  const std::string start = go_on ? "\n" : head;
  if (::write(journal_fd_.get(), start.data(), start.size()) != static_cast<ssize_t>(start.size()))
    fail(journal_);
  // The space is taken at once: a disk that is too small shows now, and the file lies in one piece.
  if (const int error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(table_.end())); error != 0) {
    errno = error;
    fail(part_);
  }
}

/// Lines "index checksum"; what is not one is passed over.
void PackedWriter::read_journal() {
  std::ifstream journal(journal_);
  std::string line;
  std::getline(journal, line);
  while (std::getline(journal, line)) {
    std::istringstream fields(line);
    std::size_t i = 0;
    std::string sum;
    if (!(fields >> i >> sum) || i >= written_.size() || sum.size() != 16) continue;
    written_[i] = true;
    table_.entries[i].checksum = parse_checksum(sum);
  }
}

bool PackedWriter::has(std::size_t i) const {
  if (!written_[i]) return false;
  const PackedEntry& entry = table_.entries[i];
  std::vector<std::byte> piece(std::size_t{1} << 20);
  Checksum sum;
  for (std::uint64_t done = 0; done < entry.bytes;) {
    const std::size_t wanted = std::min<std::uint64_t>(piece.size(), entry.bytes - done);
    const ssize_t n = ::pread(fd_.get(), piece.data(), wanted, static_cast<off_t>(entry.offset + done));
    if (n <= 0) return false;
    sum.add({piece.data(), static_cast<std::size_t>(n)});
    done += static_cast<std::uint64_t>(n);
  }
  return sum.value() == entry.checksum;
}

void PackedWriter::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno != EINTR) fail(part_);
    if (n <= 0) continue;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void PackedWriter::write(std::size_t i, std::span<const std::byte> bytes) {
  PackedEntry& entry = table_.entries[i];
  if (bytes.size() != entry.bytes) throw std::logic_error(entry.name + " is packed to an unexpected size");
  put(entry.offset, bytes);
  const std::uint64_t sum = checksum(bytes);
  const std::string line = std::to_string(i) + " " + checksum_text(sum) + "\n";
  const std::lock_guard lock(mutex_);
  entry.checksum = sum;
  if (::write(journal_fd_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    fail(journal_);
}

void PackedWriter::finish() {
  if (whole_) return;
  const std::string text = table_text(table_);
  const PackedHeader header{table_.end(), text.size(), checksum(bytes_of(text))};
  put(header.table_offset, bytes_of(text));
  put(0, bytes_of(header_bytes(header)));
  if (::ftruncate(fd_.get(), static_cast<off_t>(header.file_bytes())) != 0 || ::fsync(fd_.get()) != 0)
    fail(part_);
  if (::rename(part_.c_str(), path_.c_str()) != 0) fail(part_);
  ::unlink(journal_.c_str());
}

}  // namespace grokd

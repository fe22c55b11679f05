#include "engine/checkpoint/packed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine/checkpoint/checksum.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;

// Small enough to stay in a core's cache between the disk's copy, the checksum and the copy to the device.
constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
// What is dropped from the page cache at once.
constexpr std::uint64_t kDropBytes = std::uint64_t{32} << 20;

constexpr std::string_view kPrefix = "rank-", kMiddle = "-of-", kSuffix = ".packed";

/// N of "rank-R-of-N.packed", or 0.
int ranks_in(const std::string& name) {
  const auto middle = name.find(kMiddle);
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || middle == std::string::npos) return 0;
  int ranks = 0;
  const char* first = name.data() + middle + kMiddle.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto result = std::from_chars(first, end, ranks);
  return result.ec == std::errc() && result.ptr == end ? ranks : 0;
}

}  // namespace

std::string packed_file_name(Shard shard) {
  return std::string(kPrefix) + std::to_string(shard.rank) + std::string(kMiddle) +
         std::to_string(shard.ranks) + std::string(kSuffix);
}

int packed_ranks(const std::string& folder) {
  int found = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const int ranks = ranks_in(entry.path().filename().string());
    if (ranks == 0) continue;
    if (found != 0 && found != ranks)
      throw ConfigError(folder + ": holds files packed for " + std::to_string(std::min(found, ranks)) +
                        " and for " + std::to_string(std::max(found, ranks)) + " ranks");
    found = ranks;
  }
  return found;
}

PackedFile::PackedFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!fd_.open()) fail("cannot be opened: " + std::generic_category().message(errno));
  try {
    struct stat info {};
    ::fstat(fd_.get(), &info);
    const auto size = static_cast<std::uint64_t>(info.st_size);
    const PackedHeader header = parse_header(read_text(0, std::min<std::uint64_t>(size, kPackedHeaderBytes)));
    if (header.file_bytes() != size)
      fail("has " + std::to_string(size) + " bytes instead of " + std::to_string(header.file_bytes()));
    const std::string text = read_text(header.table_offset, header.table_bytes);
    if (checksum(std::as_bytes(std::span(text))) != header.table_checksum) fail("has a damaged table");
    table_ = parse_table(text);
    for (std::size_t i = 0; i < table_.entries.size(); ++i) {
      const PackedEntry& e = table_.entries[i];
      if (e.offset > header.table_offset || e.bytes > header.table_offset - e.offset)
        fail("places " + e.name + " outside itself");
      index_.emplace(e.name, i);
    }
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
}

void PackedFile::fail(const std::string& what) const { throw ConfigError(path_ + ": " + what); }

std::string PackedFile::read_text(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(fd_.get(), text.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno != EINTR) fail("cannot be read: " + std::generic_category().message(errno));
    if (n == 0) fail("ends too early");
    if (n > 0) done += static_cast<std::uint64_t>(n);
  }
  return text;
}

const PackedEntry& PackedFile::entry(const std::string& name, std::uint64_t bytes) const {
  const auto found = index_.find(name);
  if (found == index_.end()) fail("has no block " + name);
  const PackedEntry& entry = table_.entries[found->second];
  if (entry.bytes != bytes)
    fail("block " + name + " has " + std::to_string(entry.bytes) + " bytes instead of " +
         std::to_string(bytes));
  return entry;
}

void PackedFile::read(const PackedEntry& entry, const Piece& piece) const {
  std::vector<std::byte> buffer(
      std::min<std::uint64_t>(kPieceBytes, std::max<std::uint64_t>(1, entry.bytes)));
  Checksum sum;
  ::posix_fadvise(fd_.get(), static_cast<off_t>(entry.offset), static_cast<off_t>(entry.bytes),
                  POSIX_FADV_SEQUENTIAL);
  const auto drop = [&](std::uint64_t from, std::uint64_t to) {
    ::posix_fadvise(fd_.get(), static_cast<off_t>(entry.offset + from), static_cast<off_t>(to - from),
                    POSIX_FADV_DONTNEED);
  };
  std::uint64_t dropped = 0;
  for (std::uint64_t done = 0; done < entry.bytes;) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), entry.bytes - done);
    const ssize_t n = ::pread(fd_.get(), buffer.data(), wanted, static_cast<off_t>(entry.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(entry.name + " cannot be read: " + std::generic_category().message(errno));
    if (n == 0) fail("ends inside " + entry.name);
    const std::span<const std::byte> got(buffer.data(), static_cast<std::size_t>(n));
    sum.add(got);
    piece(done, got);
    done += got.size();
    if (done - dropped >= kDropBytes) drop(std::exchange(dropped, done), done);
  }
  drop(dropped, entry.bytes);
  if (sum.value() != entry.checksum)
    fail(entry.name + " is damaged: its checksum is " + checksum_text(sum.value()) + " instead of " +
         checksum_text(entry.checksum));
}

}  // namespace grokd

#include "engine/checkpoint/packed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "engine/checkpoint/checksum.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;

// Long enough for the disk, short enough to be still in a cache when it is checked and copied.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

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
    : path_(path),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      direct_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)) {
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

std::span<const std::byte> PackedFile::read_piece(const PackedEntry& entry, std::uint64_t at,
                                                  std::span<std::byte> buffer) const {
  const std::uint64_t left = entry.bytes - at;
  // Whole pages, as reading past the page cache asks for: behind a block there is room up to the next page.
  const std::size_t wanted =
      std::min<std::uint64_t>(buffer.size(), (left + kPackedPage - 1) / kPackedPage * kPackedPage);
  ssize_t n = 0;
  do {
    n = ::pread(direct_.open() ? direct_.get() : fd_.get(), buffer.data(), wanted,
                static_cast<off_t>(entry.offset + at));
  } while (n < 0 && errno == EINTR);
  if (n < 0) fail(entry.name + " cannot be read: " + std::generic_category().message(errno));
  if (n == 0) fail("ends inside " + entry.name);
  return buffer.first(std::min<std::uint64_t>(static_cast<std::size_t>(n), left));
}

void PackedFile::read(const PackedEntry& entry, const Piece& piece) const {
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kPackedPage, kPieceBytes)), &std::free);
  if (!memory) throw std::bad_alloc();
  Checksum sum;
  for (std::uint64_t done = 0; done < entry.bytes;) {
    const std::span<const std::byte> got = read_piece(entry, done, {memory.get(), kPieceBytes});
    sum.add(got);
    piece(done, got);
    done += got.size();
  }
  if (sum.value() != entry.checksum)
    fail(entry.name + " is damaged: its checksum is " + checksum_text(sum.value()) + " instead of " +
         checksum_text(entry.checksum));
}

}  // namespace grokd

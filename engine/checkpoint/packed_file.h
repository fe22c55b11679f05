#pragma once
// A packed file, for reading; and the folder of those of all ranks.

#include <functional>
#include <map>
#include <span>
#include <string>

#include "engine/checkpoint/descriptor.h"
#include "engine/checkpoint/packed_table.h"

namespace grokd {

/// "rank-0-of-2.packed"
std::string packed_file_name(Shard shard);

/// The number of ranks a folder's files were packed for; 0 when there are none. Throws ConfigError when there
/// are files for several numbers.
int packed_ranks(const std::string& folder);

class PackedFile {
 public:
  /// Checks header, table and length. Throws ConfigError naming the file.
  explicit PackedFile(const std::string& path);

  const std::string& path() const { return path_; }
  const PackedTable& table() const { return table_; }
  /// Throws ConfigError when there is no such block or it has another size.
  const PackedEntry& entry(const std::string& name, std::uint64_t bytes) const;

  /// Hands the block out piece by piece, past the page cache where the file system can. Throws ConfigError
  /// when its checksum is wrong, after the last piece. From any thread.
  using Piece = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;
  void read(const PackedEntry& entry, const Piece& piece) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;
  /// What is read of the block from `at` on, at most `buffer`, which is aligned to a page.
  std::span<const std::byte> read_piece(const PackedEntry& entry, std::uint64_t at,
                                        std::span<std::byte> buffer) const;
  std::string read_text(std::uint64_t offset, std::uint64_t bytes) const;

  std::string path_;
  Descriptor fd_, direct_;
  PackedTable table_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace grokd

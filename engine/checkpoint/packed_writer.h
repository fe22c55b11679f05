#pragma once
// A packed file being written, block by block in any order. Until it is whole it is called NAME.part, beside
// NAME.journal with the blocks that are done: who begins the same file again goes on from there.

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/descriptor.h"
#include "engine/checkpoint/packed_table.h"

namespace grokd {

class PackedWriter {
 public:
  /// Throws ConfigError naming the file, as do the others.
  PackedWriter(std::string path, PackedTable table);

  /// The whole file is there already, of the same identity.
  bool whole() const { return whole_; }
  /// Block `i` was written by an earlier run; it is read again to be sure. From any thread.
  bool has(std::size_t i) const;
  /// From any thread, each block once.
  void write(std::size_t i, std::span<const std::byte> bytes);
  /// All blocks are written: table, header, and the file gets its name.
  void finish();

 private:
  void open_part();
  void read_journal();
  void put(std::uint64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void fail(const std::string& path) const;

  const std::string path_, part_, journal_;
  PackedTable table_;
  bool whole_ = false;
  Descriptor fd_, journal_fd_;
  std::mutex mutex_;           // guards what follows while blocks are written
  std::vector<bool> written_;  // by an earlier run, then by this one
};

}  // namespace grokd

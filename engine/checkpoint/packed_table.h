#pragma once
// What a packed file says about itself. The file: a header of 64 bytes; the blocks of one rank's weights,
// each on a page; the table, as JSON. Header, table and every block have checksums.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/config.h"
#include "engine/models/weight_block.h"

namespace grokd {

/// What a file was packed for; all of it must agree with what loads it.
struct PackedIdentity {
  std::vector<std::pair<std::string, int>> sizes;  // of the configuration, by their names in config.json
  std::string model_type;
  std::string layout;   // Backend::weight_layout
  std::string weights;  // fingerprint of the checkpoint
  Shard shard;
};

struct PackedEntry {
  std::string name;
  std::uint64_t offset = 0, bytes = 0, checksum = 0;
};

struct PackedTable {
  PackedIdentity identity;
  std::vector<PackedEntry> entries;
  std::uint64_t end() const;  // of the last block
};

PackedIdentity packed_identity(const ModelConfig& config, const std::string& layout,
                               const std::string& weights, Shard shard);

/// Why a file with `found` cannot serve where `wanted` is needed; "" when it can. An empty `wanted.weights`
/// or `wanted.layout` fits any.
std::string difference(const PackedIdentity& found, const PackedIdentity& wanted);

/// Places for the blocks, one after the other; checksums are not known yet.
PackedTable packed_layout(PackedIdentity identity, const std::vector<WeightBlock>& blocks);

std::string table_text(const PackedTable& table);
/// Throws std::invalid_argument for anything but a table.
PackedTable parse_table(const std::string& text);

struct PackedHeader {
  std::uint64_t table_offset = 0, table_bytes = 0, table_checksum = 0;
  std::uint64_t file_bytes() const { return table_offset + table_bytes; }
};

inline constexpr std::size_t kPackedHeaderBytes = 64;
inline constexpr std::uint64_t kPackedPage = 4096;

std::string header_bytes(const PackedHeader& header);
/// Throws std::invalid_argument saying what is wrong with it.
PackedHeader parse_header(const std::string& bytes);

}  // namespace grokd

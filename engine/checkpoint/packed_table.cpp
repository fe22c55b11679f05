#include "engine/checkpoint/packed_table.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/checkpoint/checksum.h"

namespace grokd {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kMagic = "GROKPACK";
constexpr std::uint64_t kVersion = 1;

/// The header as it lies in the file, little endian.
struct RawHeader {
  std::array<char, 8> magic;
  std::uint64_t version, table_offset, table_bytes, table_checksum, unused[2], checksum;
};
static_assert(sizeof(RawHeader) == kPackedHeaderBytes);

std::uint64_t own_checksum(const RawHeader& raw) {
  return checksum(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawHeader, checksum)));
}

std::string rank_text(Shard shard) {
  return "rank " + std::to_string(shard.rank) + " of " + std::to_string(shard.ranks);
}

std::uint64_t on_page(std::uint64_t offset) { return (offset + kPackedPage - 1) / kPackedPage * kPackedPage; }

PackedTable table_of(const ordered_json& json) {
  PackedTable table;
  PackedIdentity& identity = table.identity;
  for (const auto& [name, value] : json.at("sizes").items())
    identity.sizes.emplace_back(name, value.get<int>());
  identity.model_type = json.at("model_type").get<std::string>();
  identity.layout = json.at("layout").get<std::string>();
  identity.weights = json.at("weights").get<std::string>();
  identity.shard = {json.at("rank").get<int>(), json.at("ranks").get<int>()};
  for (const ordered_json& block : json.at("blocks")) {
    table.entries.push_back({block.at("name").get<std::string>(), block.at("offset").get<std::uint64_t>(),
                             block.at("bytes").get<std::uint64_t>(),
                             parse_checksum(block.at("xxh3").get<std::string>())});
  }
  return table;
}

}  // namespace

std::uint64_t PackedTable::end() const {
  return entries.empty() ? kPackedPage : entries.back().offset + entries.back().bytes;
}

PackedIdentity packed_identity(const ModelConfig& c, const std::string& layout, const std::string& weights,
                               Shard shard) {
  return {{{"vocab_size", c.vocab_size},
           {"emb_size", c.emb_size},
           {"num_layers", c.num_layers},
           {"num_q_heads", c.num_q_heads},
           {"num_kv_heads", c.num_kv_heads},
           {"key_size", c.key_size},
           {"ffn_size", c.ffn_size},
           {"num_experts", c.num_experts},
           {"scale_groups", c.scale_groups}},
          c.model_type,
          layout,
          weights,
          shard};
}

std::string difference(const PackedIdentity& found, const PackedIdentity& wanted) {
  if (found.model_type != wanted.model_type)
    return "holds a model of type " + found.model_type + ", config.json says " + wanted.model_type;
  for (std::size_t i = 0; i < wanted.sizes.size(); ++i) {
    const auto& [name, size] = wanted.sizes[i];
    if (i >= found.sizes.size() || found.sizes[i].first != name) return "does not say its " + name;
    if (found.sizes[i].second != size)
      return "was packed for " + name + " " + std::to_string(found.sizes[i].second) + ", config.json says " +
             std::to_string(size);
  }
  if (!wanted.layout.empty() && found.layout != wanted.layout)
    return "holds the layout " + found.layout + ", this backend needs " + wanted.layout;
  if (found.shard.rank != wanted.shard.rank || found.shard.ranks != wanted.shard.ranks)
    return "is " + rank_text(found.shard) + ", not " + rank_text(wanted.shard);
  if (!wanted.weights.empty() && found.weights != wanted.weights)
    return "was packed from other weights (" + found.weights + ", not " + wanted.weights + ")";
  return "";
}

PackedTable packed_layout(PackedIdentity identity, const std::vector<WeightBlock>& blocks) {
  PackedTable table{std::move(identity), {}};
  for (const WeightBlock& block : blocks)
    table.entries.push_back({block.name, on_page(table.end()), block_bytes(block), 0});
  return table;
}

std::string table_text(const PackedTable& table) {
  const PackedIdentity& identity = table.identity;
  ordered_json sizes, blocks = ordered_json::array();
  for (const auto& [name, size] : identity.sizes) sizes[name] = size;
  for (const PackedEntry& entry : table.entries) {
    blocks.push_back({{"name", entry.name},
                      {"offset", entry.offset},
                      {"bytes", entry.bytes},
                      {"xxh3", checksum_text(entry.checksum)}});
  }
  const ordered_json json = {{"model_type", identity.model_type},
                             {"sizes", sizes},
                             {"layout", identity.layout},
                             {"weights", identity.weights},
                             {"rank", identity.shard.rank},
                             {"ranks", identity.shard.ranks},
                             {"blocks", blocks}};
  return json.dump(1) + "\n";
}

PackedTable parse_table(const std::string& text) {
  try {
    return table_of(ordered_json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("its table cannot be read: ") + error.what());
  }
}

std::string header_bytes(const PackedHeader& header) {
  RawHeader raw{{}, kVersion, header.table_offset, header.table_bytes, header.table_checksum, {}, 0};
  std::memcpy(raw.magic.data(), kMagic.data(), kMagic.size());
  raw.checksum = own_checksum(raw);
  std::string bytes(sizeof raw, '\0');
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

PackedHeader parse_header(const std::string& bytes) {
  RawHeader raw{};
  if (bytes.size() < sizeof raw) throw std::invalid_argument("is too short for a packed file");
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (std::string_view(raw.magic.data(), raw.magic.size()) != kMagic)
    throw std::invalid_argument("is not a packed file");
  if (raw.version != kVersion)
    throw std::invalid_argument("is a packed file of version " + std::to_string(raw.version) +
                                ", this program reads " + std::to_string(kVersion) + ": pack again");
  if (raw.checksum != own_checksum(raw)) throw std::invalid_argument("has a damaged header");
  return {raw.table_offset, raw.table_bytes, raw.table_checksum};
}

}  // namespace grokd

// Any bytes as a packed file's header and table: a complaint, or values that come back the same when written
// and read.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "engine/checkpoint/packed_table.h"

namespace {

using namespace grokd;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_header(const std::string& bytes) {
  try {
    const PackedHeader header = parse_header(bytes);
    require(parse_header(header_bytes(header)).table_offset == header.table_offset);
  } catch (const std::invalid_argument&) {
  }
}

void check_table(const std::string& text) {
  try {
    const PackedTable table = parse_table(text);
    const std::string written = table_text(table);
    require(table_text(parse_table(written)) == written);
    require(difference(table.identity, table.identity).empty());
    table.end();
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check_header(bytes.substr(0, kPackedHeaderBytes));
  check_header(bytes);
  PackedHeader header;  // a checksum that is right over fields that are not
  if (size >= sizeof(header)) {
    std::memcpy(&header, data, sizeof(header));
    check_header(header_bytes(header));
  }
  check_table(bytes);
  check_table(bytes.substr(std::min(size, kPackedHeaderBytes)));
  return 0;
}

// Any bytes as a stream of events, cut in two places: the events do not depend on the cuts.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "service/loadtest/event_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using grokd::loadtest::EventReader;
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t first = std::min<std::size_t>(data[0], bytes.size());
  const std::size_t second = std::min<std::size_t>(first + data[1], bytes.size());
  std::vector<EventReader::Event> whole, cut;
  EventReader at_once;
  at_once.feed(bytes, whole);
  EventReader in_parts;
  in_parts.feed(bytes.substr(0, first), cut);
  in_parts.feed(bytes.substr(first, second - first), cut);
  in_parts.feed(bytes.substr(second), cut);
  if (whole != cut) std::abort();
  return 0;
}

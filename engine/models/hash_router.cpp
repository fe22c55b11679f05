#include "engine/models/hash_router.h"

#include <cstdint>

namespace grokd {

int hash_expert(TokenId token, int position, int groups, int experts_per_group) {
  const auto t = static_cast<std::uint32_t>(token), p = static_cast<std::uint32_t>(position);
  const std::uint32_t h = (t * 2654435761u + p * 123456789u) & 0x3F;
  const std::uint32_t group = h % static_cast<std::uint32_t>(groups);
  const std::uint32_t index = ((h >> 4) + (p & 7)) % static_cast<std::uint32_t>(experts_per_group);
  return static_cast<int>(group) * experts_per_group + static_cast<int>(index);
}

}  // namespace grokd

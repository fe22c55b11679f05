#include "engine/stop_matcher.h"

#include <algorithm>

namespace grokd {

std::optional<StopMatcher::Match> StopMatcher::find(std::string_view text) const {
  std::optional<Match> best;
  for (int i = 0; i < static_cast<int>(stops_.size()); ++i) {
    const auto& stop = stops_[static_cast<std::size_t>(i)];
    const std::size_t begin = text.find(stop);
    if (begin == text.npos) continue;
    const bool wins =
        !best || begin < best->begin ||
        (begin == best->begin && stop.size() > stops_[static_cast<std::size_t>(best->stop)].size());
    if (wins) best = Match{begin, i};
  }
  return best;
}

std::size_t StopMatcher::held(std::string_view text) const {
  std::size_t longest = 0;
  for (const auto& stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, text.size()); size > longest; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

}  // namespace grokd

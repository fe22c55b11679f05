#pragma once
// Stop strings in a text that grows.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace grokd {

/// The strings must outlive the matcher and not be empty.
class StopMatcher {
 public:
  struct Match {
    std::size_t begin = 0;  // the text ends before it
    int stop = 0;           // index of the string
  };

  StopMatcher() = default;
  explicit StopMatcher(std::span<const std::string> stops) : stops_(stops) {}

  /// Among the strings that stand whole in the text: the earliest start wins, then the longest.
  std::optional<Match> find(std::string_view text) const;
  /// Length of the longest tail of the text that begins some string without completing it.
  std::size_t held(std::string_view text) const;

 private:
  std::span<const std::string> stops_;
};

}  // namespace grokd

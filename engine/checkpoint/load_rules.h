#pragma once
// Which file's tensor a parameter takes, when a checkpoint uses other names: the rules of xAI's reference
// loader.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace grokd {

struct LoadRules {
  /// (pattern, replacement): the first pattern found in a parameter's path rewrites it to the checkpoint's
  /// path. Replacements may use \1 ... \9.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// A parameter whose path contains any of these patterns is left out.
  std::vector<std::string> exclude = {};
};

/// The checkpoint's path of a parameter, or nothing when it is excluded. Throws ConfigError for a bad
/// pattern.
std::optional<std::string> stored_path(const LoadRules& rules, const std::string& path);

}  // namespace grokd

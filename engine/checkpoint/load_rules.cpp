#include "engine/checkpoint/load_rules.h"

// GCC 12 with a sanitizer takes std::regex's own moves for uses of unset memory.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <regex>

#include "engine/models/config.h"

namespace grokd {
namespace {

std::regex compiled(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw ConfigError("load rule \"" + pattern + "\": " + error.what());
  }
}

/// "\1" is "$1" in C++, and a plain "$" needs doubling.
std::string replacement_format(const std::string& replacement) {
  std::string format;
  for (std::size_t i = 0; i < replacement.size(); ++i) {
    const bool backslash = replacement[i] == '\\' && i + 1 < replacement.size();
    if (backslash) {
      const char next = replacement[++i];
      format += next >= '1' && next <= '9' ? std::string("$") + next : std::string(1, next);
    } else {
      format += replacement[i] == '$' ? "$$" : std::string(1, replacement[i]);
    }
  }
  return format;
}

}  // namespace

std::optional<std::string> stored_path(const LoadRules& rules, const std::string& path) {
  for (const std::string& pattern : rules.exclude) {
    if (std::regex_search(path, compiled(pattern))) return std::nullopt;
  }
  for (const auto& [pattern, replacement] : rules.rename) {
    const std::regex expression = compiled(pattern);
    if (std::regex_search(path, expression)) {
      return std::regex_replace(path, expression, replacement_format(replacement));
    }
  }
  return path;
}

}  // namespace grokd

#pragma once
// Structured log: one line of JSON an event, on stderr, written by a thread of its own so that a slow
// terminal or a full pipe holds up nobody.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/request_record.h"

namespace grokd {

enum class LogLevel { debug, info, warn, error, off };
/// Throws ConfigError naming the levels.
LogLevel parse_log_level(std::string_view name);

class Log {
 public:
  explicit Log(LogLevel level);
  ~Log();  // writes what waits

  /// An event with fields, all as JSON strings.
  void event(LogLevel level, std::string_view message,
             const std::vector<std::pair<std::string_view, std::string>>& fields = {});
  /// The line of a request that has ended.
  void request(const RequestRecord& record);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

#pragma once
// Server-sent events out of a stream's bytes.

#include <string>
#include <string_view>
#include <vector>

namespace grokd::loadtest {

/// Splits a stream of bytes into server-sent events.
class EventReader {
 public:
  enum class Event { text, other, error, done };
  /// Appends the events that are complete now to `out`.
  void feed(std::string_view bytes, std::vector<Event>& out);

 private:
  std::string pending_;
};

}  // namespace grokd::loadtest

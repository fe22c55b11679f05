#include "service/loadtest/event_reader.h"

namespace grokd::loadtest {

void EventReader::feed(std::string_view bytes, std::vector<Event>& out) {
  pending_ += bytes;
  std::size_t start = 0;
  for (std::size_t end; (end = pending_.find("\n\n", start)) != std::string::npos; start = end + 2) {
    const std::string_view event = std::string_view(pending_).substr(start, end - start);
    if (!event.starts_with("data: ")) continue;  // a comment
    if (event == "data: [DONE]") {
      out.push_back(Event::done);
    } else if (event.starts_with("data: {\"error\"")) {
      out.push_back(Event::error);
    } else {
      const bool empty = event.find("\"text\":\"\"") != std::string_view::npos ||
                         event.find("\"choices\":[]") != std::string_view::npos ||
                         event.find("\"delta\":{}") != std::string_view::npos ||
                         event.find("\"role\"") != std::string_view::npos;
      out.push_back(empty ? Event::other : Event::text);
    }
  }
  pending_.erase(0, start);
}

}  // namespace grokd::loadtest

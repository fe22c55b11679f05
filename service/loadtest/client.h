#pragma once
// One streaming request to any OpenAI-style server, with the time of each event.

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace grokd::loadtest {

using Clock = std::chrono::steady_clock;

struct Target {
  std::string host = "127.0.0.1";
  std::string port = "8080";
  std::string path = "/v1/completions";
  std::string key;  // sent as a bearer token unless empty
};

/// Takes "http://host:port[/path]"; the default path is /v1/completions. Throws std::invalid_argument.
Target parse_url(const std::string& url);

struct Timeline {
  Clock::time_point sent, answered, ended;  // answered: the status came
  std::vector<Clock::time_point> events;    // of text, in order
  int status = 0;                           // 0: no answer
  bool done = false;                        // "[DONE]" was seen
  std::string error;                        // what failed, empty if nothing
};

/// Never throws; what went wrong stands in the timeline.
boost::asio::awaitable<Timeline> stream_completion(const Target& target, std::string body,
                                                   std::chrono::seconds limit);

}  // namespace grokd::loadtest

#pragma once
// What is known of one request when it has ended: for its log line and the metrics.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "service/trace_context.h"

namespace grokd {

struct RequestRecord {
  std::string request_id;
  std::optional<TraceContext> trace;  // of a valid traceparent header
  std::string client;                 // address
  std::string method, path;
  std::string_view route = "other";  // pattern of the route: a closed set
  int status = 0;
  std::string error_code;
  bool stream = false;
  std::string finish;  // of a generation: stop, length, abort, error, timeout
  std::string user_hash, key_hash;
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  int choices = 0;
  // Of the sequence that ended last, so that they add up to nearly the whole.
  double tokenise_seconds = 0, queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  double write_seconds = 0;  // from the last token to the answer's last bytes
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

}  // namespace grokd

#include "api/sse.h"

#include "api/json_writer.h"

namespace grokd::api {

void append_sse_event(std::string& out, std::string_view json) {
  out += kSseData;
  out += json;
  out += kSseEnd;
}

void append_sse_progress(std::string& out, std::int64_t done, std::int64_t total) {
  out += ": progress ";
  append_integer(out, done);
  out += '/';
  append_integer(out, total);
  out += kSseEnd;
}

}  // namespace grokd::api

#pragma once
// Sends what is known of requests to a collector of traces: OTLP over HTTP, as JSON
// (opentelemetry.io/docs/specs/otlp).

#include <functional>
#include <memory>
#include <string>

#include "service/request_record.h"

namespace grokd {

/// One request as an ExportTraceServiceRequest: a span for the whole, and one each for where its time went.
/// `ended_unix_nanos`: now, by the wall clock.
std::string otlp_spans(const RequestRecord& record, std::int64_t ended_unix_nanos,
                       const std::string& service_version);

class TraceExporter {
 public:
  /// `endpoint`: "http://HOST[:PORT]/v1/traces". `count(n, sent)` is told how many requests' spans were sent
  /// or dropped, from the exporter's thread. Throws ConfigError for an endpoint that is none.
  TraceExporter(const std::string& endpoint, std::function<void(int, bool)> count);
  ~TraceExporter();  // drops what waits

  /// Never blocks: with too many waiting for a collector that does not answer, the spans are dropped. Any
  /// thread.
  void add(const RequestRecord& record);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

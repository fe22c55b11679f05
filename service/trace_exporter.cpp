#include "service/trace_exporter.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "api/json_writer.h"
#include "engine/models/config.h"
#include "service/exchange.h"

namespace grokd {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr std::size_t kMostWaiting = 4096;  // requests
constexpr std::size_t kMostSentTogether = 256;
constexpr std::chrono::seconds kCollectorTimeout{5};
constexpr std::chrono::milliseconds kPause{500};  // between two messages to the collector

/// Writes the members of one OTLP span; ids are hexadecimal and 64-bit integers are strings (OTLP's JSON).
class SpanWriter {
 public:
  explicit SpanWriter(std::string& out) : out_(out) {}

  void begin(const std::string& trace_id, const std::string& span_id, const std::string& parent_id,
             std::string_view name, int kind, std::int64_t start, std::int64_t end) {
    out_ += out_.ends_with('[') ? "{" : ",{";
    member("traceId", trace_id);
    member("spanId", span_id);
    if (!parent_id.empty()) member("parentSpanId", parent_id);
    member("name", name);
    out_ += "\"kind\":" + std::to_string(kind) + ',';
    member("startTimeUnixNano", std::to_string(start));
    member("endTimeUnixNano", std::to_string(end));
    out_ += "\"attributes\":[";
  }
  void text(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    open_attribute(key);
    out_ += "\"stringValue\":";
    api::append_string(out_, value);
    out_ += "}}";
  }
  void integer(std::string_view key, std::int64_t value) {
    open_attribute(key);
    out_ += "\"intValue\":\"" + std::to_string(value) + "\"}}";
  }
  void end(bool failed) { out_ += failed ? R"(],"status":{"code":2}})" : R"(],"status":{}})"; }

 private:
  void member(std::string_view key, std::string_view value) {
    api::append_string(out_, key);
    out_ += ':';
    api::append_string(out_, value);
    out_ += ',';
  }
  void open_attribute(std::string_view key) {
    out_ += out_.ends_with('[') ? R"({"key":)" : R"(,{"key":)";
    api::append_string(out_, key);
    out_ += R"(,"value":{)";
  }
  std::string& out_;
};

constexpr int kInternal = 1, kServer = 2;  // kinds of spans

std::string new_span_id() { return random_id().substr(0, 16); }

std::int64_t nanos(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

void write_request_span(SpanWriter& writer, const RequestRecord& r, const std::string& trace_id,
                        const std::string& span_id, std::int64_t start, std::int64_t end) {
  const std::string parent = r.trace ? r.trace->parent_span_id : std::string();
  writer.begin(trace_id, span_id, parent, r.method + " " + std::string(r.route), kServer, start, end);
  writer.text("http.request.method", r.method);
  writer.text("http.route", r.route);
  writer.integer("http.response.status_code", r.status);
  writer.text("client.address", r.client);
  writer.text("error.type", r.error_code);
  writer.text("grokd.request_id", r.request_id);
  if (r.choices > 0) {
    writer.text("gen_ai.response.finish_reason", r.finish);
    writer.integer("gen_ai.usage.input_tokens", r.prompt_tokens);
    writer.integer("gen_ai.usage.output_tokens", r.completion_tokens);
    writer.integer("grokd.cached_tokens", r.cached_tokens);
    writer.integer("grokd.choices", r.choices);
  }
  writer.end(r.status >= 500);
}

}  // namespace

std::string otlp_spans(const RequestRecord& record, std::int64_t ended_unix_nanos,
                       const std::string& service_version) {
  const std::string trace_id = record.trace ? record.trace->trace_id : random_id();
  const std::string root = new_span_id();
  const std::chrono::duration<double> total = std::chrono::steady_clock::now() - record.started;
  std::string out = R"({"resourceSpans":[{"resource":{"attributes":[)"
                    R"({"key":"service.name","value":{"stringValue":"grokd"}},)"
                    R"({"key":"service.version","value":{"stringValue":")" +
                    service_version + R"("}}]},"scopeSpans":[{"scope":{"name":"grokd"},"spans":[)";
  SpanWriter writer(out);
  const std::int64_t start = ended_unix_nanos - nanos(total.count());
  write_request_span(writer, record, trace_id, root, start, ended_unix_nanos);
  const std::pair<const char*, double> parts[] = {{"tokenise", record.tokenise_seconds},
                                                  {"queue", record.queue_seconds},
                                                  {"prefill", record.prefill_seconds},
                                                  {"decode", record.decode_seconds},
                                                  {"write", record.write_seconds}};
  // They follow each other and end with the request.
  double rest = 0;
  for (const auto& [name, seconds] : parts) rest += seconds;
  std::int64_t at = std::max(start, ended_unix_nanos - nanos(rest));
  for (const auto& [name, seconds] : parts) {
    if (seconds <= 0) continue;
    const std::int64_t end = std::min(at + nanos(seconds), ended_unix_nanos);
    writer.begin(trace_id, new_span_id(), root, name, kInternal, at, end);
    writer.end(false);
    at = end;
  }
  return out + "]}]}]}";
}

namespace {

struct Endpoint {
  std::string host, port, path;
};

Endpoint parse_endpoint(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) throw ConfigError("--otlp-endpoint " + url + " does not begin with http://");
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size()), colon = rest.substr(0, slash).rfind(':');
  Endpoint endpoint;
  endpoint.host = rest.substr(0, std::min(colon, slash));
  endpoint.port = colon == std::string::npos ? "4318" : rest.substr(colon + 1, slash - colon - 1);
  endpoint.path = slash + 1 < rest.size() ? rest.substr(slash) : "/v1/traces";
  if (endpoint.host.empty() || endpoint.port.empty())
    throw ConfigError("--otlp-endpoint " + url + " has no host or port");
  return endpoint;
}

}  // namespace

class TraceExporter::Impl {
 public:
  Impl(const std::string& endpoint, std::function<void(int, bool)> count)
      : endpoint_(parse_endpoint(endpoint)), count_(std::move(count)) {
    asio::co_spawn(io_, send_all(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Impl() {
    io_.stop();
    thread_.join();
  }

  void add(const RequestRecord& record) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::string spans =
        otlp_spans(record, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), GROKD_VERSION);
    std::unique_lock lock(mutex_);
    if (waiting_.size() < kMostWaiting) {
      waiting_.push_back(std::move(spans));
      return;
    }
    lock.unlock();
    count_(1, false);
  }

 private:
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostSentTogether));
    std::vector<std::string> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return taken;
  }

  asio::awaitable<void> send_all() {
    asio::steady_timer timer(io_);
    while (true) {
      const std::vector<std::string> messages = take();
      if (!messages.empty()) {
        const std::string body = joined(messages);
        const bool sent = co_await send(body);
        count_(static_cast<int>(messages.size()), sent);
      }
      timer.expires_after(kPause);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }

  /// One ExportTraceServiceRequest of many.
  static std::string joined(const std::vector<std::string>& messages) {
    constexpr std::string_view kHead = R"({"resourceSpans":[)", kTail = "]}";
    std::string all(kHead);
    for (const std::string& message : messages) {
      if (all.size() > kHead.size()) all += ',';
      all.append(message, kHead.size(), message.size() - kHead.size() - kTail.size());
    }
    return all.append(kTail);
  }

  asio::awaitable<bool> send(const std::string& body) {
    try {
      asio::ip::tcp::resolver resolver(io_);
      const auto found = co_await resolver.async_resolve(endpoint_.host, endpoint_.port, asio::use_awaitable);
      beast::tcp_stream stream(io_);
      stream.expires_after(kCollectorTimeout);
      co_await stream.async_connect(found, asio::use_awaitable);
      http::request<http::string_body> request(http::verb::post, endpoint_.path, 11);
      request.set(http::field::host, endpoint_.host + ":" + endpoint_.port);
      request.set(http::field::content_type, "application/json");
      request.body() = body;
      request.prepare_payload();
      co_await http::async_write(stream, request, asio::use_awaitable);
      beast::flat_buffer buffer;
      http::response<http::string_body> response;
      co_await http::async_read(stream, buffer, response, asio::use_awaitable);
      co_return response.result_int() / 100 == 2;
    } catch (const boost::system::system_error&) {
      co_return false;
    }
  }

  const Endpoint endpoint_;
  const std::function<void(int, bool)> count_;
  asio::io_context io_{1};
  std::mutex mutex_;
  std::vector<std::string> waiting_;
  std::thread thread_;
};

TraceExporter::TraceExporter(const std::string& endpoint, std::function<void(int, bool)> count)
    : impl_(std::make_unique<Impl>(endpoint, std::move(count))) {}
TraceExporter::~TraceExporter() = default;
void TraceExporter::add(const RequestRecord& record) { impl_->add(record); }

}  // namespace grokd

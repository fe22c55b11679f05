#include "service/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "api/json_writer.h"
#include "engine/models/config.h"

namespace grokd {
namespace {

constexpr std::size_t kLinesWaiting = 8192;  // then the oldest are dropped

/// Builds `"key":value` pairs.
class JsonLine {
 public:
  JsonLine& text(std::string_view key, std::string_view value) {
    begin(key);
    api::append_string(line_, value);
    return *this;
  }
  JsonLine& text_if_any(std::string_view key, std::string_view value) {
    return value.empty() ? *this : text(key, value);
  }
  JsonLine& integer(std::string_view key, std::int64_t value) {
    begin(key);
    api::append_integer(line_, value);
    return *this;
  }
  JsonLine& milliseconds(std::string_view key, double seconds) {
    begin(key);
    api::append_number(line_, static_cast<double>(static_cast<std::int64_t>(seconds * 1e6)) / 1e3);
    return *this;
  }
  const std::string& str() const { return line_; }

 private:
  void begin(std::string_view key) {
    line_ += ',';
    api::append_string(line_, key);
    line_ += ':';
  }
  std::string line_;
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

LogLevel parse_log_level(std::string_view name) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::debug},
                                                               {"info", LogLevel::info},
                                                               {"warn", LogLevel::warn},
                                                               {"error", LogLevel::error},
                                                               {"off", LogLevel::off}};
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  throw ConfigError("--log-level must be debug, info, warn, error or off, not " + std::string(name));
}

class Log::Impl {
 public:
  explicit Impl(LogLevel level)
      : pool_(std::make_shared<spdlog::details::thread_pool>(kLinesWaiting, 1)),
        logger_(
            std::make_shared<spdlog::async_logger>("grokd", std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                                   pool_, spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_level(spdlog_level(level));
    logger_->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l"%v})");
    logger_->flush_on(spdlog::level::info);
  }
  void write(LogLevel level, const std::string& members) {
    logger_->log(spdlog_level(level), spdlog::string_view_t(members));
  }
  bool wants(LogLevel level) const { return logger_->should_log(spdlog_level(level)); }

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

Log::Log(LogLevel level) : impl_(std::make_unique<Impl>(level)) {}
Log::~Log() = default;

void Log::event(LogLevel level, std::string_view message,
                const std::vector<std::pair<std::string_view, std::string>>& fields) {
  if (!impl_->wants(level)) return;
  JsonLine line;
  line.text("message", message);
  for (const auto& [key, value] : fields) line.text(key, value);
  impl_->write(level, line.str());
}

void Log::request(const RequestRecord& r) {
  const LogLevel level = r.status >= 500 ? LogLevel::warn : LogLevel::info;
  if (!impl_->wants(level)) return;
  JsonLine line;
  line.text("message", "request").text("id", r.request_id).text("client", r.client).text("method", r.method);
  line.text("path", r.path.substr(0, 256)).text("route", r.route).integer("status", r.status);
  line.text_if_any("error", r.error_code)
      .text_if_any("trace_id", r.trace ? r.trace->trace_id : std::string())
      .text_if_any("key", r.key_hash)
      .text_if_any("user", r.user_hash);
  const std::chrono::duration<double> total = std::chrono::steady_clock::now() - r.started;
  line.milliseconds("total_ms", total.count());
  if (r.choices > 0) {
    line.text("finish", r.finish).integer("choices", r.choices).integer("prompt_tokens", r.prompt_tokens);
    line.integer("cached_tokens", r.cached_tokens).integer("completion_tokens", r.completion_tokens);
    line.milliseconds("tokenise_ms", r.tokenise_seconds).milliseconds("queue_ms", r.queue_seconds);
    line.milliseconds("prefill_ms", r.prefill_seconds).milliseconds("decode_ms", r.decode_seconds);
    line.milliseconds("write_ms", r.write_seconds);
  }
  impl_->write(level, line.str());
}

}  // namespace grokd

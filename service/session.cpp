#include "service/session.h"

#include <boost/system/system_error.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "api/error.h"
#include "api/sse.h"
#include "service/access.h"
#include "service/exchange.h"
#include "service/request_checks.h"
#include "service/routes.h"

namespace grokd {

namespace asio = boost::asio;
using Refusal = std::optional<api::ApiError>;

namespace {

constexpr std::size_t kMostDiscardedBytes = 64 << 10;

/// What stands in a refusal when a handler threw something that is not the client's doing.
api::ApiError fault(Exchange& exchange, App& app, const std::exception& error) {
  app.log.event(LogLevel::error, "a handler failed",
                {{"id", exchange.record().request_id}, {"what", std::string(error.what())}});
  return api::errors::internal_error(false);
}

/// Metrics and health have a port of their own where one is set, and that port has nothing else.
bool is_served_here(const Route& route, const Connection& connection, const ServerConfig& config) {
  const bool metrics = route.pattern == "/metrics";
  if (connection.on_metrics_port()) return metrics || route.pattern == "/livez" || route.pattern == "/readyz";
  return !metrics || config.metrics_port < 0;
}

void check_key(const Route& route, Exchange& exchange, const App& app) {
  const bool open = exchange.connection().on_metrics_port() || route.key == Key::not_needed ||
                    (route.key == Key::needed_unless_load_is_open && app.config.load_without_key);
  if (open || !app.keys.key_needed()) return;
  auto account = app.keys.find(presented_key(exchange.request()));
  if (!account) throw api::errors::invalid_api_key();
  exchange.set_account(std::move(account));
}

/// For a client that waits for "100 Continue": what the handler would refuse whatever the body says.
void check_room(const Route& route, App& app) {
  if (!route.generates) return;
  const EngineStats stats = app.require_model().engine->stats();
  if (stats.failed) throw api::errors::engine_unavailable(1);
  if (stats.waiting >= app.config.engine.max_waiting) throw api::errors::queue_full(1);
}

HttpResponse preflight(const HttpRequest& request, const std::string& allowed) {
  HttpResponse response;
  response.status = 204;
  response.headers.push_back({"Allow", allowed});
  if (request.has("Origin")) {
    for (Header& header : preflight_headers(request)) response.headers.push_back(std::move(header));
  }
  return response;
}

/// Everything up to the handler's answer. False: the client left.
asio::awaitable<bool> answer(Exchange& exchange, App& app) {
  const HttpRequest& request = exchange.request();
  const RouteMatch match = match_route(request);
  const bool elsewhere = match.route && !is_served_here(*match.route, exchange.connection(), app.config);
  if (match.allowed.empty() || elsewhere) throw api::errors::unknown_url(request.path);
  if (match.route) exchange.record().route = match.route->pattern;
  if (request.method == "OPTIONS") {
    const HttpResponse response = preflight(request, match.allowed);
    co_await exchange.reply(response);
    co_return true;
  }
  if (!match.route) {
    exchange.add_header("Allow", match.allowed);
    throw api::errors::method_not_allowed(request.method, match.allowed);
  }
  check_key(*match.route, exchange, app);
  check_body_headers(request, app.config.http);
  if (expects_continue(request)) check_room(*match.route, app);
  const bool complete = co_await exchange.read_body();
  if (complete) co_await match.route->handler(exchange, app);
  co_return complete;
}

/// A small body that was refused unread is read and dropped, so that the connection can serve on.
asio::awaitable<void> discard_body(Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  if (!exchange.connection().body_pending()) co_return;
  const std::string length(trim(request.header("Content-Length")));
  const bool small = !length.empty() && length.size() < 9 && std::stoul(length) <= kMostDiscardedBytes;
  if (!small || request.has("Expect")) co_return;  // the answer then says "Connection: close"
  try {
    co_await exchange.read_body();
  } catch (const api::ApiError&) {
    exchange.close_after_answer();
  }
}

asio::awaitable<void> refuse(Exchange& exchange, const api::ApiError& error) {
  if (!exchange.started()) {
    co_await discard_body(exchange);
    co_await exchange.reply(error);
    co_return;
  }
  exchange.record().error_code = error.code;
  std::string events;
  api::append_sse_event(events, api::to_json(error));
  events += api::kSseDone;
  co_await exchange.write(events);
  co_await exchange.finish_stream();
}

void close_record(Exchange& exchange, App& app) {
  const RequestRecord& record = exchange.record();
  if (record.status > 0) app.metrics.count_request(record.route, record.status);
  app.log.request(record);
  if (app.traces && record.status > 0 && (!record.trace || record.trace->sampled)) app.traces->add(record);
}

/// What the handler would not answer. Sets `gone` when the client left.
asio::awaitable<Refusal> try_to_answer(Exchange& exchange, App& app, bool& gone) {
  try {
    const bool complete = co_await answer(exchange, app);
    gone = !complete;
  } catch (const api::ApiError& error) {
    if (error.status == 408 || error.code == "bad_request_framing") exchange.close_after_answer();
    co_return error;
  } catch (const boost::system::system_error&) {
    gone = true;
  } catch (const std::exception& error) {
    co_return fault(exchange, app, error);
  }
  co_return std::nullopt;
}

asio::awaitable<Refusal> try_to_read_header(Connection& connection, HttpRequest& request, bool& gone) {
  try {
    const bool complete = co_await connection.read_header(request);
    gone = !complete;
  } catch (const api::ApiError& error) {
    co_return error;
  }
  co_return std::nullopt;
}

/// While one exists, a server that drains waits for the connection.
class Answering {
 public:
  explicit Answering(Connection& connection) : connection_(connection) { connection_.set_answering(true); }
  ~Answering() { connection_.set_answering(false); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

 private:
  Connection& connection_;
};

/// False: the connection ends.
asio::awaitable<bool> serve_request(std::shared_ptr<Connection> connection, App& app) {
  HttpRequest request;
  bool gone = false;
  Refusal refusal = co_await try_to_read_header(*connection, request, gone);
  if (gone) co_return false;
  const Answering answering(*connection);
  Exchange exchange(connection, std::move(request), app.config);
  if (app.not_ready)
    exchange.close_after_answer();  // so that a proxy keeps no connection that is about to end
  if (refusal) {
    exchange.close_after_answer();
  } else {
    refusal = co_await try_to_answer(exchange, app, gone);
  }
  connection->stop_watching();
  try {
    if (refusal) co_await refuse(exchange, *refusal);
  } catch (const boost::system::system_error&) {
    gone = true;
  }
  close_record(exchange, app);
  co_return !gone && exchange.keep_alive();
}

}  // namespace

asio::awaitable<void> serve_connection(std::shared_ptr<Connection> connection, App& app) {
  try {
    bool open = true;
    while (open) open = co_await serve_request(connection, app);
    co_await connection->close_gently();
  } catch (const std::exception& error) {
    app.log.event(LogLevel::error, "a connection failed", {{"what", std::string(error.what())}});
    connection->abort();
  }
}

asio::awaitable<void> turn_away(std::shared_ptr<Connection> connection, App& app) {
  HttpRequest request;
  request.keep_alive = false;
  Exchange exchange(connection, std::move(request), app.config);
  const api::ApiError error = api::errors::engine_unavailable(1);
  try {
    co_await exchange.reply(error);
    co_await connection->close_gently();
  } catch (const boost::system::system_error&) {
    connection->abort();
  }
}

}  // namespace grokd

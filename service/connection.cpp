#include "service/connection.h"

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/system_error.hpp>
#include <cstdint>
#include <optional>
#include <utility>

#include "api/error.h"
#include "service/request_checks.h"

namespace grokd {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

struct Connection::Reader {
  beast::flat_buffer buffer;
  std::optional<http::request_parser<http::string_body>> parser;
};

/// Cancels what the socket waits for at a point of time, again and again until it is destroyed: an operation
/// whose next part is just about to start cannot slip through.
class Connection::Deadline {
 public:
  Deadline(std::shared_ptr<Connection> connection, SteadyTime time)
      : state_(std::make_shared<State>(std::move(connection))) {
    set(time);
  }
  ~Deadline() {
    state_->active = false;
    state_->timer.cancel();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  void set(SteadyTime time) {
    state_->timer.expires_at(time);
    arm(state_);
  }
  bool expired() const { return state_->expired; }

 private:
  struct State {
    explicit State(std::shared_ptr<Connection> c) : connection(std::move(c)), timer(connection->executor()) {}
    std::shared_ptr<Connection> connection;
    asio::steady_timer timer;
    bool active = true;
    bool expired = false;
  };
  static void arm(const std::shared_ptr<State>& state) {
    state->timer.async_wait([state](error_code error) {
      if (error || !state->active || state->timer.expiry() > std::chrono::steady_clock::now()) return;
      state->expired = true;
      state->connection->socket_.cancel(error);
      state->timer.expires_after(std::chrono::milliseconds(20));
      arm(state);
    });
  }
  std::shared_ptr<State> state_;
};

/// A coroutine that is suspended until it is woken.
class Connection::Sleeper {
 public:
  virtual ~Sleeper() = default;
  virtual void resume() = 0;
};

template <typename Handler>
class Connection::HandlerSleeper final : public Sleeper {
 public:
  explicit HandlerSleeper(Handler handler) : handler_(std::move(handler)) {}
  void resume() override { asio::dispatch(std::move(handler_)); }

 private:
  Handler handler_;
};

Connection::Connection(asio::ip::tcp::socket socket, WakeQueue& wakes, const HttpLimits& limits,
                       ConnectionOrigin origin)
    : socket_(std::move(socket)),
      wakes_(wakes),
      limits_(limits),
      origin_(std::move(origin)),
      alarm_(socket_.get_executor()),
      reader_(std::make_unique<Reader>()) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  // Else the kernel would keep megabytes for a client that does not read.
  const asio::socket_base::send_buffer_size send_buffer(static_cast<int>(limits_.max_output_bytes / 4));
  socket_.set_option(send_buffer, ignored);
}

Connection::~Connection() = default;

asio::awaitable<bool> Connection::wait_for_first_byte() {
  if (reader_->buffer.size() > 0) co_return true;
  const auto limit = first_request_ ? limits_.header_timeout : limits_.idle_timeout;
  Deadline deadline(shared_from_this(), std::chrono::steady_clock::now() + limit);
  error_code error;
  co_await socket_.async_wait(asio::socket_base::wait_read, asio::redirect_error(asio::use_awaitable, error));
  co_return !error && !deadline.expired();
}

namespace {

std::int64_t as_int64(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

api::ApiError header_error(error_code error, bool request_line_seen, const HttpLimits& limits) {
  if (error != http::error::header_limit) {
    return api::errors::bad_request_framing("The request is not well-formed HTTP/1.1.");
  }
  if (!request_line_seen) return api::errors::uri_too_long(as_int64(limits.max_target_bytes));
  return api::errors::headers_too_large(as_int64(limits.max_header_bytes));
}

bool is_malformed(error_code error) {
  return error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

void copy_header(const http::request<http::string_body>& message, bool keep_alive, HttpRequest& request) {
  request.method = message.method_string();
  request.target = message.target();
  request.version = message.version() < 11 ? 10 : 11;
  request.keep_alive = keep_alive;
  for (const auto& field : message)
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
}

}  // namespace

asio::awaitable<bool> Connection::read_header(HttpRequest& request) {
  const bool ready = co_await wait_for_first_byte();
  if (!ready) co_return false;
  auto& parser = reader_->parser.emplace();
  parser.header_limit(static_cast<std::uint32_t>(limits_.max_header_bytes));
  parser.body_limit(boost::none);
  Deadline deadline(shared_from_this(), std::chrono::steady_clock::now() + limits_.header_timeout);
  first_request_ = false;
  error_code error;
  co_await http::async_read_header(socket_, reader_->buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  if (error && deadline.expired()) throw api::errors::request_timeout();
  if (error && is_malformed(error)) throw header_error(error, !parser.get().target().empty(), limits_);
  if (error) co_return false;
  copy_header(parser.get(), parser.keep_alive(), request);
  check_framing(request, limits_);
  co_return true;
}

bool Connection::body_pending() const { return reader_->parser && !reader_->parser->is_done(); }

asio::awaitable<void> Connection::send_continue_if_expected(const HttpRequest& request) {
  if (!expects_continue(request)) co_return;
  co_await write("HTTP/1.1 100 Continue\r\n\r\n");
}

asio::awaitable<bool> Connection::read_body(HttpRequest& request) {
  co_await send_continue_if_expected(request);
  auto& parser = *reader_->parser;
  parser.body_limit(limits_.max_body_bytes);
  const SteadyTime start = std::chrono::steady_clock::now();
  Deadline deadline(shared_from_this(), start + limits_.body_timeout);
  std::size_t received = reader_->buffer.size();
  while (!parser.is_done()) {
    error_code error;
    received += co_await http::async_read_some(socket_, reader_->buffer, parser,
                                               asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::body_limit)
      throw api::errors::request_too_large(as_int64(limits_.max_body_bytes));
    if (error && deadline.expired()) throw api::errors::request_timeout();
    if (error && is_malformed(error)) throw api::errors::bad_request_framing("The body is badly framed.");
    if (error) co_return false;
    const Milliseconds earned(received * 1000 / std::max<std::size_t>(limits_.min_body_rate, 1));
    deadline.set(start + std::max(limits_.body_timeout, earned));
  }
  request.body = std::move(parser.get().body());
  co_return true;
}

asio::awaitable<void> Connection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    error_code error;
    bytes.remove_prefix(socket_.write_some(asio::buffer(bytes), error));
    if (!error) continue;
    if (error != asio::error::would_block) {
      peer_gone_ = true;
      throw boost::system::system_error(error);
    }
    Deadline deadline(shared_from_this(), std::chrono::steady_clock::now() + limits_.slow_reader_timeout);
    blocked_ = true;
    co_await socket_.async_wait(asio::socket_base::wait_write,
                                asio::redirect_error(asio::use_awaitable, error));
    blocked_ = false;
    if (deadline.expired()) {
      abort();
      throw boost::system::system_error(asio::error::timed_out);
    }
    if (error) {
      peer_gone_ = true;
      throw boost::system::system_error(error);
    }
  }
}

asio::awaitable<void> Connection::close_gently() {
  stop_watching();
  error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  // Closing with unread bytes would reset the connection and could destroy the answer on its way.
  Deadline deadline(shared_from_this(), std::chrono::steady_clock::now() + limits_.linger);
  char sink[4096];
  while (!error && !deadline.expired()) {
    co_await socket_.async_read_some(asio::buffer(sink), asio::redirect_error(asio::use_awaitable, error));
  }
  socket_.close(error);
}

void Connection::abort() {
  peer_gone_ = true;
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

void Connection::watch_peer() {
  stop_watching();
  const std::uint64_t watch = ++watch_;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this(), watch](error_code error) {
    self->on_peer_event(error, watch);
  });
}

void Connection::stop_watching() {
  alarm_.cancel();
  alarm_time_ = SteadyTime::max();
  if (watch_ % 2 == 0) return;
  ++watch_;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::on_peer_event(error_code error, std::uint64_t watch) {
  if (watch != watch_) return;
  char byte;
  const std::size_t seen =
      error ? 0 : socket_.receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, error);
  if (error == asio::error::eof || (!error && seen == 0)) {
    peer_finished_ = true;
    peer_finished_at_ = std::chrono::steady_clock::now();
    wake();
  } else if (error && error != asio::error::would_block) {
    peer_gone_ = true;
    return wake();
  }
  // Pipelined bytes are no departure. What can still come is a reset.
  socket_.async_wait(asio::socket_base::wait_error,
                     [self = shared_from_this(), watch](error_code e) { self->on_reset_event(e, watch); });
}

void Connection::on_reset_event(error_code, std::uint64_t watch) {
  if (watch != watch_) return;
  peer_gone_ = true;
  wake();
}

asio::awaitable<void> Connection::wait_until(SteadyTime time) {
  if (!woken_) {
    wake_at(time);
    const auto initiate = [this](auto handler) {
      sleeper_ = std::make_unique<HandlerSleeper<decltype(handler)>>(std::move(handler));
    };
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(initiate, asio::use_awaitable);
  }
  woken_ = false;
}

/// An alarm that is set for an earlier time stays: being woken too soon is cheaper than setting it anew.
void Connection::wake_at(SteadyTime time) {
  if (time >= alarm_time_) return;
  alarm_time_ = time;
  alarm_.expires_at(time);
  alarm_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->alarm_.expiry() > std::chrono::steady_clock::now()) return;
    self->alarm_time_ = SteadyTime::max();
    self->wake();
  });
}

void Connection::wake() {
  woken_ = true;
  if (const auto sleeper = std::move(sleeper_)) sleeper->resume();
}

void Connection::drop_sleeper() { const auto dropped = std::move(sleeper_); }

void Connection::notify() { wakes_.add(shared_from_this()); }

void Connection::cut_off_if_blocked() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->blocked_) self->abort();
  });
}

void Connection::end_answer() {
  must_end_ = true;
  wake();
}

void Connection::close_if_idle() {
  error_code ignored;
  if (!answering_) socket_.shutdown(asio::socket_base::shutdown_both, ignored);
}

std::string Connection::peer_address() const {
  if (!origin_.client_address.empty()) return origin_.client_address;
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return error ? std::string() : endpoint.address().to_string();
}

}  // namespace grokd

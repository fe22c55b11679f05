#pragma once
// One client's socket: reads requests within limits and deadlines, writes bytes, notices when the client
// leaves. Everything here runs on the connection's strand; only `notify` may be called from other threads.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "service/config.h"
#include "service/http_message.h"

namespace grokd {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  Connection(boost::asio::ip::tcp::socket socket, const HttpLimits& limits);
  ~Connection();

  /// Reads the next request's header. False: the client left or was idle too long. Throws ApiError for a
  /// header that is refused.
  boost::asio::awaitable<bool> read_header(HttpRequest& request);
  /// Reads the body that belongs to the header just read, after sending "100 Continue" if the client waits
  /// for it. False: the client left. Throws ApiError (too large, too slow, badly framed).
  boost::asio::awaitable<bool> read_body(HttpRequest& request);
  /// The header just read says a body follows that nobody has read.
  bool body_pending() const;

  /// Throws system_error when the client is gone or reads too slowly; then the socket is already reset.
  boost::asio::awaitable<void> write(std::string_view bytes);
  /// Ends the connection so that the client still sees what was written.
  boost::asio::awaitable<void> close_gently();
  /// Ends it with a reset.
  void abort();

  /// Between these two the client's leaving is noticed: `wait` returns early and the flags below change.
  void watch_peer();
  void stop_watching();
  bool peer_finished() const { return peer_finished_; }  // it closed its sending side
  bool peer_gone() const { return peer_gone_; }
  SteadyTime peer_finished_at() const { return peer_finished_at_; }

  /// Sleeps until then, or until the next `notify` or change of the peer; one that came before counts.
  boost::asio::awaitable<void> wait_until(SteadyTime time);
  /// Any thread.
  void notify();

  /// Set by whoever generates for this client; read by the server while it drains.
  void set_generating(bool generating) { generating_ = generating; }
  bool generating() const { return generating_; }
  /// The server is about to end: what is being answered must end now, with an error.
  void end_answer();
  bool must_end() const { return must_end_; }
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }
  std::string peer_address() const;

 private:
  struct Reader;
  class Deadline;

  boost::asio::awaitable<bool> wait_for_first_byte();
  boost::asio::awaitable<void> send_continue_if_expected(const HttpRequest& request);
  void on_peer_event(boost::system::error_code error, std::uint64_t watch);
  void on_reset_event(boost::system::error_code error, std::uint64_t watch);
  void wake();

  boost::asio::ip::tcp::socket socket_;
  const HttpLimits& limits_;
  boost::asio::steady_timer wake_timer_;
  bool woken_ = false;
  std::unique_ptr<Reader> reader_;
  bool first_request_ = true;
  std::atomic<bool> generating_ = false;
  bool must_end_ = false;
  std::uint64_t watch_ = 0;  // odd while watching; tells stale events apart
  bool peer_finished_ = false;
  bool peer_gone_ = false;
  SteadyTime peer_finished_at_;
};

}  // namespace grokd

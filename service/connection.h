#pragma once
// One client's socket: reads requests within limits and deadlines, writes bytes, notices when the client
// leaves. Everything here runs on the connection's io thread, but for what says "any thread".

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
#include "service/wake_queue.h"

namespace grokd {

/// Where a connection came from.
struct ConnectionOrigin {
  std::string client_address;  // "" = that of the socket
  bool metrics_port = false;   // the port that has only metrics and health
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  /// The socket, `wakes` and the connection belong to one io thread.
  Connection(boost::asio::ip::tcp::socket socket, WakeQueue& wakes, const HttpLimits& limits,
             ConnectionOrigin origin = {});
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

  /// Sleeps until the next `notify` or change of the peer, one that came before counts, or until then at the
  /// latest. May also return for no reason.
  boost::asio::awaitable<void> wait_until(SteadyTime time);
  /// Any thread.
  void notify();
  /// Resets the connection if a write waits for the client to read. Any thread.
  void cut_off_if_blocked();
  /// What `notify` leads to.
  void wake();
  /// Ends whoever is in `wait_until`: it and the connection hold each other. When the io thread has ended.
  void drop_sleeper();

  /// A request is in work, from the end of its header to the end of its answer; read by the server while it
  /// drains.
  void set_answering(bool answering) { answering_ = answering; }
  bool answering() const { return answering_; }
  /// The server is about to end: what is being answered must end now, with an error.
  void end_answer();
  /// Ends a connection that waits for its next request.
  void close_if_idle();
  bool must_end() const { return must_end_; }
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }
  std::string peer_address() const;
  bool on_metrics_port() const { return origin_.metrics_port; }

 private:
  struct Reader;
  class Deadline;
  class Sleeper;
  template <typename Handler>
  class HandlerSleeper;

  boost::asio::awaitable<bool> wait_for_first_byte();
  boost::asio::awaitable<void> send_continue_if_expected(const HttpRequest& request);
  void on_peer_event(boost::system::error_code error, std::uint64_t watch);
  void on_reset_event(boost::system::error_code error, std::uint64_t watch);
  void wake_at(SteadyTime time);

  boost::asio::ip::tcp::socket socket_;
  WakeQueue& wakes_;
  const HttpLimits& limits_;
  const ConnectionOrigin origin_;
  boost::asio::steady_timer alarm_;
  SteadyTime alarm_time_ = SteadyTime::max();  // never: it is off
  std::unique_ptr<Sleeper> sleeper_;           // whoever is in `wait_until`
  bool woken_ = false;
  bool blocked_ = false;  // a write waits for the client to read
  std::unique_ptr<Reader> reader_;
  bool first_request_ = true;
  std::atomic<bool> answering_ = false;
  bool must_end_ = false;
  std::uint64_t watch_ = 0;  // odd while watching; tells stale events apart
  bool peer_finished_ = false;
  bool peer_gone_ = false;
  SteadyTime peer_finished_at_;
};

}  // namespace grokd

#pragma once
// Connections of one io thread that have something to do: many are woken by one message to the thread.

#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <vector>

namespace grokd {

class Connection;

class WakeQueue {
 public:
  /// `io` is run by one thread.
  explicit WakeQueue(boost::asio::io_context& io) : io_(io) {}
  WakeQueue(const WakeQueue&) = delete;
  WakeQueue& operator=(const WakeQueue&) = delete;

  /// `connection` is woken on the io thread. Any thread.
  void add(std::shared_ptr<Connection> connection);

 private:
  void wake_all();

  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> waiting_;
  std::vector<std::shared_ptr<Connection>> waking_;  // the io thread's
};

}  // namespace grokd

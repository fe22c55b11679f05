#include "service/wake_queue.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "service/connection.h"

namespace grokd {

void WakeQueue::add(std::shared_ptr<Connection> connection) {
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = waiting_.empty();
    waiting_.push_back(std::move(connection));
  }
  if (first) boost::asio::post(io_, [this] { wake_all(); });
}

void WakeQueue::wake_all() {
  {
    std::lock_guard lock(mutex_);
    std::swap(waiting_, waking_);
  }
  for (const auto& connection : waking_) connection->wake();
  waking_.clear();
}

}  // namespace grokd

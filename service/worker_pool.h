#pragma once
// Threads for work that would hold up an io thread: encoding prompts, filling templates.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>

namespace grokd {

class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();  // as stop()
  void stop();    // finishes what runs, drops what waits

  /// Runs `work` on a worker and resumes the caller on its own executor. What `work` throws, this throws.
  boost::asio::awaitable<void> run(std::function<void()> work);

 private:
  boost::asio::thread_pool pool_;
};

}  // namespace grokd

#include "service/worker_pool.h"

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

namespace grokd {

namespace asio = boost::asio;

WorkerPool::WorkerPool(int threads) : pool_(static_cast<std::size_t>(threads)) {}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  pool_.stop();
  pool_.join();
}

asio::awaitable<void> WorkerPool::run(std::function<void()> work) {
  std::exception_ptr failure;
  auto initiate = [this, &work, &failure](auto handler) {
    auto task = [&work, &failure, done = std::move(handler)]() mutable {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      auto executor = asio::get_associated_executor(done);
      asio::post(executor, std::move(done));
    };
    asio::post(pool_, std::move(task));
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(initiate, asio::use_awaitable);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace grokd

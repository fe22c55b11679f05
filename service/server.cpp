#include "service/server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "service/session.h"

namespace grokd {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr Milliseconds kAcceptRetry{100};  // when the process is out of file descriptors
constexpr Milliseconds kDrainPoll{10};
constexpr Milliseconds kLastWords{1'000};  // for the error events at the end of the drain timeout

int threads_or_default(int configured) {
  if (configured > 0) return configured;
  return std::thread::hardware_concurrency() <= 2 ? 1 : 2;
}

tcp::acceptor listen(asio::io_context& io, const ServerConfig& config) {
  try {
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(config.host, std::to_string(config.port), tcp::resolver::passive);
    return tcp::acceptor(io, found.begin()->endpoint(), true);
  } catch (const boost::system::system_error& error) {
    throw ConfigError("cannot listen on " + config.host + ":" + std::to_string(config.port) + ": " +
                      error.code().message());
  }
}

}  // namespace

namespace {

/// Every connection belongs to one of these for its whole life, so nothing of it needs a lock or a strand.
struct IoThread {
  asio::io_context io{1};
  WakeQueue wakes{io};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running = asio::make_work_guard(io);
  std::thread thread;
};

std::vector<std::unique_ptr<IoThread>> make_io_threads(int count) {
  std::vector<std::unique_ptr<IoThread>> threads;
  for (int i = 0; i < count; ++i) threads.push_back(std::make_unique<IoThread>());
  return threads;
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerConfig config, ModelConfig model, api::ChatTemplate chat_template)
      : config_(std::move(config)),
        log_(parse_log_level(config_.log_level)),
        metrics_(config_.model_id.empty() ? model.name : config_.model_id, config_.vllm_metrics),
        io_threads_(make_io_threads(threads_or_default(config_.io_threads))),
        io_(io_threads_.front()->io),
        acceptor_(listen(io_, config_)),
        signals_(io_),
        host_(std::move(model), std::move(chat_template), config_.model_id, config_.aliases),
        workers_(threads_or_default(config_.workers)),
        app_{config_, host_, metrics_, log_, workers_} {
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~Impl() {
    stop(0);
    for (auto& io_thread : io_threads_) {
      if (io_thread->thread.joinable()) io_thread->thread.join();
    }
    for (const auto& [key, weak] : connections_) {
      if (const auto connection = weak.lock()) connection->drop_sleeper();
    }
    workers_.stop();  // uses the tokenizer
    host_.unload();   // its sinks post to the io threads' queues, which must still be there
  }

  void start();
  void drain();
  void stop(int exit_code);
  int wait();
  void drain_on_signals();

  asio::awaitable<void> accept_connections();
  asio::awaitable<void> drain_all();
  void open_connection(tcp::socket socket, WakeQueue& wakes);
  IoThread& next_io_thread();
  void close_connection(const Connection* connection);
  void tell_connections(void (Connection::*what)());
  int busy_connections();

  const ServerConfig config_;
  Log log_;
  Metrics metrics_;
  std::vector<std::unique_ptr<IoThread>> io_threads_;
  asio::io_context& io_;  // of the first, which also accepts and drains
  std::size_t accepted_ = 0;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  ModelHost host_;
  WorkerPool workers_;
  App app_;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<int> exit_code_;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> connections_;
  bool draining_ = false;
};

void Server::Impl::start() {
  asio::co_spawn(io_, accept_connections(), asio::detached);
  for (auto& io_thread : io_threads_) io_thread->thread = std::thread([&io = io_thread->io] { io.run(); });
}

IoThread& Server::Impl::next_io_thread() { return *io_threads_[accepted_++ % io_threads_.size()]; }

asio::awaitable<void> Server::Impl::accept_connections() {
  while (acceptor_.is_open()) {
    error_code error;
    IoThread& io_thread = next_io_thread();
    tcp::socket socket(io_thread.io);
    co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      open_connection(std::move(socket), io_thread.wakes);
    } else if (error != asio::error::operation_aborted) {
      asio::steady_timer pause(io_, kAcceptRetry);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

void Server::Impl::open_connection(tcp::socket socket, WakeQueue& wakes) {
  auto connection = std::make_shared<Connection>(std::move(socket), wakes, config_.http);
  int open = 0;
  {
    std::lock_guard lock(mutex_);
    connections_.emplace(connection.get(), connection);
    open = static_cast<int>(connections_.size());
  }
  metrics_.set_connections(open);
  const auto executor = connection->executor();
  const Connection* key = connection.get();
  auto served = open > config_.http.max_connections ? turn_away(std::move(connection), app_)
                                                    : serve_connection(std::move(connection), app_);
  asio::co_spawn(executor, std::move(served), [this, key](std::exception_ptr) { close_connection(key); });
}

void Server::Impl::close_connection(const Connection* connection) {
  std::lock_guard lock(mutex_);
  connections_.erase(connection);
  metrics_.set_connections(static_cast<int>(connections_.size()));
}

void Server::Impl::tell_connections(void (Connection::*what)()) {
  std::lock_guard lock(mutex_);
  for (const auto& [key, weak] : connections_) {
    if (auto connection = weak.lock()) {
      const auto executor = connection->executor();
      asio::post(executor, [connection = std::move(connection), what] { ((*connection).*what)(); });
    }
  }
}

int Server::Impl::busy_connections() {
  std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(connections_.begin(), connections_.end(), [](const auto& entry) {
    const auto connection = entry.second.lock();
    return connection && connection->generating();
  }));
}

asio::awaitable<void> Server::Impl::drain_all() {
  error_code ignored;
  asio::steady_timer timer(io_, config_.drain_delay);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  app_.draining = true;
  log_.event(LogLevel::info, "draining");
  const auto end = std::chrono::steady_clock::now() + config_.drain_timeout;
  bool forced = false;
  while (busy_connections() > 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end && !std::exchange(forced, true)) tell_connections(&Connection::end_answer);
    if (now >= end + kLastWords) break;
    timer.expires_after(kDrainPoll);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  stop(0);
}

void Server::Impl::drain() {
  app_.not_ready = true;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(draining_, true)) return;
  }
  asio::co_spawn(io_, drain_all(), asio::detached);
}

void Server::Impl::stop(int exit_code) {
  std::lock_guard lock(mutex_);
  if (!exit_code_) exit_code_ = exit_code;
  for (auto& io_thread : io_threads_) io_thread->io.stop();
  ended_.notify_all();
}

int Server::Impl::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return exit_code_.has_value(); });
  return *exit_code_;
}

void Server::Impl::drain_on_signals() {
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](error_code error, int) {
    if (error) return;
    drain();
    signals_.async_wait([](error_code second_error, int signal) {
      if (!second_error) std::_Exit(128 + signal);
    });
  });
}

Server::Server(ServerConfig config, ModelConfig model, api::ChatTemplate chat_template)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(model), std::move(chat_template))) {}
Server::~Server() = default;

void Server::start() { impl_->start(); }
int Server::port() const { return impl_->acceptor_.local_endpoint().port(); }
std::string Server::address() const {
  const auto endpoint = impl_->acceptor_.local_endpoint();
  const std::string host = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}
ModelHost& Server::host() { return impl_->host_; }
Metrics& Server::metrics() { return impl_->metrics_; }
const ServerConfig& Server::config() const { return impl_->config_; }
void Server::drain_on_signals() { impl_->drain_on_signals(); }
void Server::drain() { impl_->drain(); }
void Server::stop(int exit_code) { impl_->stop(exit_code); }
int Server::wait() { return impl_->wait(); }

}  // namespace grokd

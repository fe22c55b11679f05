#include "service/server.h"

#include <sys/socket.h>
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
#include "service/tls.h"

namespace grokd {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr Milliseconds kAcceptRetry{100};  // when the process is out of file descriptors
constexpr Milliseconds kDrainPoll{10};
constexpr Milliseconds kSupervisorPoll{500};
constexpr Milliseconds kLastWords{1'000};  // for error events, at the end of the drain timeout or after a failure

int threads_or_default(int configured) {
  if (configured > 0) return configured;
  return std::thread::hardware_concurrency() <= 2 ? 1 : 2;
}

tcp::acceptor listen(asio::io_context& io, const std::string& host, int port) {
  try {
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive);
    return tcp::acceptor(io, found.begin()->endpoint(), true);
  } catch (const boost::system::system_error& error) {
    throw ConfigError("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                      error.code().message());
  }
}

}  // namespace

namespace {

std::unique_ptr<TraceExporter> make_exporter(const ServerConfig& config, Metrics& metrics) {
  if (config.otlp_endpoint.empty()) return nullptr;
  return std::make_unique<TraceExporter>(
      config.otlp_endpoint, [&metrics](int requests, bool sent) { metrics.count_traces(requests, sent); });
}

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
        acceptor_(listen(io_, config_.host, config_.port)),
        signals_(io_),
        hangup_(io_),
        host_(std::move(model), std::move(chat_template), config_.model_id, config_.aliases),
        workers_(threads_or_default(config_.workers)),
        keys_(config_.api_keys, config_.key_limits),
        traces_(make_exporter(config_, metrics_)),
        app_{config_, host_, metrics_, log_, workers_, keys_, traces_.get()} {
    std::signal(SIGPIPE, SIG_IGN);
    if (config_.metrics_port >= 0) metrics_acceptor_.emplace(listen(io_, config_.host, config_.metrics_port));
    if (!config_.tls_certificate.empty())
      tls_ = std::make_unique<TlsFront>(config_.tls_certificate, config_.tls_private_key);
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
  void reload_on_hangup();
  void reload();
  void report_to(Supervisor supervisor);

  enum class Port { api, metrics };
  asio::awaitable<void> accept_connections(tcp::acceptor& acceptor, Port port);
  asio::awaitable<void> drain_all();
  asio::awaitable<void> stop_later(int exit_code);
  asio::awaitable<void> keep_supervisor_informed();
  void open_connection(tcp::socket socket, IoThread& io_thread, Port port);
  tcp::socket behind_tls(tcp::socket client, IoThread& io_thread);
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
  std::optional<tcp::acceptor> metrics_acceptor_;
  std::unique_ptr<TlsFront> tls_;  // null: plain HTTP
  asio::signal_set signals_;
  asio::signal_set hangup_;
  Supervisor supervisor_{"", std::chrono::microseconds(0)};
  ModelHost host_;
  WorkerPool workers_;
  KeyStore keys_;
  std::unique_ptr<TraceExporter> traces_;  // null: off
  App app_;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<int> exit_code_;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> connections_;
  bool draining_ = false;
};

void Server::Impl::start() {
  asio::co_spawn(io_, accept_connections(acceptor_, Port::api), asio::detached);
  if (metrics_acceptor_) {
    asio::co_spawn(io_, accept_connections(*metrics_acceptor_, Port::metrics), asio::detached);
  }
  for (auto& io_thread : io_threads_) io_thread->thread = std::thread([&io = io_thread->io] { io.run(); });
}

IoThread& Server::Impl::next_io_thread() { return *io_threads_[accepted_++ % io_threads_.size()]; }

asio::awaitable<void> Server::Impl::accept_connections(tcp::acceptor& acceptor, Port port) {
  while (acceptor.is_open()) {
    error_code error;
    IoThread& io_thread = next_io_thread();
    tcp::socket socket(io_thread.io);
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      open_connection(std::move(socket), io_thread, port);
    } else if (error != asio::error::operation_aborted) {
      asio::steady_timer pause(io_, kAcceptRetry);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

/// The socket that a Connection serves in place of the client's.
tcp::socket Server::Impl::behind_tls(tcp::socket client, IoThread& io_thread) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return tcp::socket(io_thread.io);  // no descriptors left: both go away at once
  }
  tcp::socket served(io_thread.io, tcp::v4(), ends[0]), carried(io_thread.io, tcp::v4(), ends[1]);
  asio::co_spawn(io_thread.io, tls_->carry(std::move(client), std::move(carried), config_.http),
                 asio::detached);
  return served;
}

void Server::Impl::open_connection(tcp::socket socket, IoThread& io_thread, Port port) {
  ConnectionOrigin origin;
  origin.metrics_port = port == Port::metrics;
  if (tls_ && port == Port::api) {
    error_code ignored;
    origin.client_address = socket.remote_endpoint(ignored).address().to_string();
    socket = behind_tls(std::move(socket), io_thread);
  }
  auto connection =
      std::make_shared<Connection>(std::move(socket), io_thread.wakes, config_.http, std::move(origin));
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
    return connection && connection->answering();
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
  // What was answered may still be on its way from here to the client.
  const auto last_words = std::chrono::steady_clock::now() + kLastWords;
  if (tls_) tell_connections(&Connection::close_if_idle);
  while (tls_ && tls_->clients() > 0 && std::chrono::steady_clock::now() < last_words) {
    timer.expires_after(kDrainPoll);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  stop(0);
}

void Server::Impl::drain() {
  app_.not_ready = true;
  supervisor_.tell("STOPPING=1");
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(draining_, true)) return;
  }
  asio::co_spawn(io_, drain_all(), asio::detached);
}

asio::awaitable<void> Server::Impl::stop_later(int exit_code) {
  error_code ignored;
  asio::steady_timer timer(io_, kLastWords);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  stop(exit_code);
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

void Server::Impl::report_to(Supervisor supervisor) {
  supervisor_ = std::move(supervisor);
  if (supervisor_.present()) asio::co_spawn(io_, keep_supervisor_informed(), asio::detached);
}

asio::awaitable<void> Server::Impl::keep_supervisor_informed() {
  bool told_ready = false;
  asio::steady_timer timer(io_);
  const auto half = std::chrono::duration_cast<Milliseconds>(supervisor_.watchdog() / 2);
  const auto pause = half.count() > 0 ? std::min(half, kSupervisorPoll) : kSupervisorPoll;
  while (true) {
    if (app_.alive()) supervisor_.tell("WATCHDOG=1");
    if (host_.loaded() && !std::exchange(told_ready, true)) supervisor_.tell("READY=1\nSTATUS=Ready");
    if (!told_ready) {
      const int percent = static_cast<int>(host_.progress() * 100);
      supervisor_.tell("STATUS=Loading the model: " + std::to_string(percent) + " %");
    }
    timer.expires_after(pause);
    error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void Server::Impl::reload_on_hangup() {
  hangup_.clear();
  hangup_.add(SIGHUP);
  hangup_.async_wait([this](error_code error, int) {
    if (error) return;
    reload();
    reload_on_hangup();
  });
}

void Server::Impl::reload() {
  try {
    if (!config_.api_key_file.empty()) keys_.replace(read_api_keys(config_.api_key_file));
    if (tls_) tls_->reload();
    log_.event(LogLevel::info, "reloaded");
  } catch (const ConfigError& error) {
    log_.event(LogLevel::error, "reload failed", {{"what", std::string(error.what())}});
  }
}

Server::Server(ServerConfig config, ModelConfig model, api::ChatTemplate chat_template)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(model), std::move(chat_template))) {}
Server::~Server() = default;

void Server::start() { impl_->start(); }
int Server::port() const { return impl_->acceptor_.local_endpoint().port(); }
int Server::metrics_port() const {
  return impl_->metrics_acceptor_ ? impl_->metrics_acceptor_->local_endpoint().port() : -1;
}
std::string Server::address() const {
  const auto endpoint = impl_->acceptor_.local_endpoint();
  const std::string host = endpoint.address().to_string();
  const std::string scheme = impl_->tls_ ? "https://" : "http://";
  return scheme + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}
ModelHost& Server::host() { return impl_->host_; }
Metrics& Server::metrics() { return impl_->metrics_; }
const ServerConfig& Server::config() const { return impl_->config_; }
void Server::drain_on_signals() { impl_->drain_on_signals(); }
void Server::report_to(Supervisor supervisor) { impl_->report_to(std::move(supervisor)); }
void Server::reload_on_hangup() { impl_->reload_on_hangup(); }
void Server::reload() { impl_->reload(); }
void Server::drain() { impl_->drain(); }
void Server::stop(int exit_code) { impl_->stop(exit_code); }
void Server::stop_after_failure() {
  asio::co_spawn(impl_->io_, impl_->stop_later(1), asio::detached);
}
int Server::wait() { return impl_->wait(); }

}  // namespace grokd

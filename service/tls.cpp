#include "service/tls.h"

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <mutex>
#include <utility>

namespace grokd {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kBufferBytes = 16 << 10;  // one TLS record

/// Clients that offer protocols get HTTP/1.1; one that offers only others is told so by the handshake.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                    const unsigned char* offered, unsigned offered_bytes, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* out = nullptr;
  const int found =
      SSL_select_next_proto(&out, chosen_bytes, kHttp11, sizeof(kHttp11) - 1, offered, offered_bytes);
  *chosen = out;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

std::shared_ptr<ssl::context> read_files(const std::string& certificate_file, const std::string& key_file) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);  // idle connections then cost little
  SSL_CTX_set_alpn_select_cb(context->native_handle(), choose_protocol, nullptr);
  error_code error;
  context->use_certificate_chain_file(certificate_file, error);
  if (error) throw ConfigError("the certificate " + certificate_file + " cannot be used: " + error.message());
  context->use_private_key_file(key_file, ssl::context::pem, error);
  if (error) throw ConfigError("the private key " + key_file + " cannot be used: " + error.message());
  return context;
}

/// A client and the pair's end that stands for it.
struct Line : std::enable_shared_from_this<Line> {
  Line(tcp::socket c, tcp::socket p, std::shared_ptr<ssl::context> k)
      : context(std::move(k)),
        client(std::move(c), *context),
        plain(std::move(p)),
        alarm(plain.get_executor()) {}

  std::shared_ptr<ssl::context> context;
  ssl::stream<tcp::socket> client;
  tcp::socket plain;
  asio::steady_timer alarm;  // ends the line
  std::chrono::steady_clock::time_point ends_at = std::chrono::steady_clock::time_point::max();

  void cut() {
    error_code ignored;
    client.next_layer().close(ignored);
    plain.close(ignored);
    alarm.cancel();
  }
  /// The earliest of several counts.
  void cut_after(Milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    if (end >= ends_at) return;
    ends_at = end;
    alarm.expires_at(end);
    alarm.async_wait([self = shared_from_this()](error_code error) {
      if (!error && self->ends_at <= std::chrono::steady_clock::now()) self->cut();
    });
  }
  void go_on() {
    alarm.cancel();
    ends_at = std::chrono::steady_clock::time_point::max();
  }
  /// The other end of the pair may be closed while a client that does not read holds up `to_client`.
  void watch_plain(Milliseconds grace) {
    plain.async_wait(asio::socket_base::wait_error, [self = shared_from_this(), grace](error_code error) {
      if (!error) self->cut_after(grace);
    });
  }
};
using LinePtr = std::shared_ptr<Line>;

asio::awaitable<void> to_plain(LinePtr line) {
  std::array<char, kBufferBytes> buffer;
  error_code error;
  while (!error) {
    const std::size_t got = co_await line->client.async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(line->plain, asio::buffer(buffer.data(), got),
                               asio::redirect_error(asio::use_awaitable, error));
  }
  if (error != asio::error::eof && error != ssl::error::stream_truncated) co_return line->cut();
  line->plain.shutdown(tcp::socket::shutdown_send, error);  // it may still read the answer
}

asio::awaitable<void> to_client(LinePtr line, Milliseconds linger) {
  std::array<char, kBufferBytes> buffer;
  error_code error;
  while (true) {
    const std::size_t got = co_await line->plain.async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(line->client, asio::buffer(buffer.data(), got),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return line->cut();
  }
  line->cut_after(linger);
  co_await line->client.async_shutdown(asio::redirect_error(asio::use_awaitable, error));
  line->cut();
}

}  // namespace

class TlsFront::Impl {
 public:
  Impl(std::string certificate_file, std::string key_file)
      : certificate_file_(std::move(certificate_file)),
        key_file_(std::move(key_file)),
        context_(read_files(certificate_file_, key_file_)) {}

  void reload() {
    auto fresh = read_files(certificate_file_, key_file_);
    std::lock_guard lock(mutex_);
    context_ = std::move(fresh);
  }
  std::shared_ptr<ssl::context> context() const {
    std::lock_guard lock(mutex_);
    return context_;
  }

  const std::shared_ptr<std::atomic<int>> clients = std::make_shared<std::atomic<int>>(0);

 private:
  const std::string certificate_file_, key_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<ssl::context> context_;
};

TlsFront::TlsFront(std::string certificate_file, std::string key_file)
    : impl_(std::make_unique<Impl>(std::move(certificate_file), std::move(key_file))) {}
TlsFront::~TlsFront() = default;

int TlsFront::clients() const { return *impl_->clients; }
void TlsFront::reload() { impl_->reload(); }

asio::awaitable<void> TlsFront::carry(tcp::socket client, tcp::socket plain, const HttpLimits& limits) const {
  // Its end may come after this object's, with the io thread's.
  const std::shared_ptr<void> counted(nullptr, [clients = impl_->clients](void*) { --*clients; });
  ++*impl_->clients;
  const auto line = std::make_shared<Line>(std::move(client), std::move(plain), impl_->context());
  error_code error;
  line->client.next_layer().set_option(tcp::no_delay(true), error);
  line->cut_after(limits.header_timeout);
  co_await line->client.async_handshake(ssl::stream_base::server,
                                        asio::redirect_error(asio::use_awaitable, error));
  line->go_on();
  if (error) co_return line->cut();
  line->watch_plain(limits.slow_reader_timeout);
  asio::co_spawn(line->plain.get_executor(), to_plain(line), asio::detached);
  co_await to_client(line, limits.linger);
}

}  // namespace grokd

#pragma once
// TLS in front of connections: decrypts a client's bytes into one end of a local socket pair, whose other end
// a Connection serves as it would a client's own socket.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "service/config.h"

namespace grokd {

class TlsFront {
 public:
  /// Certificate chain and private key in PEM. Throws ConfigError naming the file that is wrong.
  TlsFront(std::string certificate_file, std::string key_file);
  ~TlsFront();

  /// Reads the files again, for clients that come from now on. Throws ConfigError; the old ones then stay.
  void reload();

  /// Carries bytes both ways until both sides have ended. `plain` is one end of a socket pair. A handshake
  /// that takes longer than a header may is given up. Never throws. Any thread that runs both sockets.
  boost::asio::awaitable<void> carry(boost::asio::ip::tcp::socket client, boost::asio::ip::tcp::socket plain,
                                     const HttpLimits& limits) const;
  /// Clients whose bytes are being carried. Any thread.
  int clients() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

#pragma once
// A client that says exactly what a test wants said: bytes over a socket, answers taken apart.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace grokd::test {

struct Reply {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // the body ended as it should

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
  /// What follows "data: " in each event; comments are left out.
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = std::min(body.find("\n\n", at), body.size());
      const std::string event = body.substr(at, end - at);
      if (event.rfind("data: ", 0) == 0) out.push_back(event.substr(6));
      at = end + 2;
    }
    return out;
  }
};

class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
    }
  }
  ~HttpClient() { close(); }
  HttpClient(HttpClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        received_(std::move(other.received_)),
        ended_(other.ended_) {}
  HttpClient& operator=(HttpClient&&) = delete;

  /// False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void finish_sending() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
  }
  /// Before much is received: how little the kernel keeps for a client that does not read.
  void set_receive_buffer(int bytes) { ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); }

  /// More bytes, or false: closed, or nothing came in time.
  bool receive(int timeout_ms = 30'000) {
    pollfd wait{socket_, POLLIN, 0};
    if (ended_ || ::poll(&wait, 1, timeout_ms) <= 0) return false;
    char bytes[16384];
    const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    received_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  /// Forgets what has come, without waiting for more. False: closed.
  bool discard() {
    static thread_local std::vector<char> bytes(1 << 18);
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
  bool ended() const { return ended_; }
  const std::string& received() const { return received_; }
  /// Until that text has come. False: it did not.
  bool wait_for(std::string_view text, int timeout_ms = 30'000) {
    while (received_.find(text) == std::string::npos) {
      if (!receive(timeout_ms)) return false;
    }
    return true;
  }
  /// True if the server closes within that time; what it still sends is kept.
  bool wait_for_close(int timeout_ms = 30'000) {
    while (receive(timeout_ms)) {
    }
    return ended_;
  }

  /// The next answer. Informational ones (100) are answers of their own, without body.
  Reply read_reply(bool has_body = true) {
    Reply reply;
    if (!wait_for("\r\n\r\n")) return reply;
    const std::string head = take(received_.find("\r\n\r\n") + 4);
    parse_head(head, reply);
    if (reply.status == 100 || reply.status == 204 || !has_body) {
      reply.complete = true;
    } else if (reply.header("transfer-encoding") == "chunked") {
      read_chunks(reply);
    } else if (!reply.header("content-length").empty()) {
      read_exactly(std::stoul(reply.header("content-length")), reply);
    } else {
      wait_for_close();
      reply.body = take(received_.size());
      reply.complete = true;
    }
    return reply;
  }

 private:
  static std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }
  static void parse_head(const std::string& head, Reply& reply) {
    reply.status = std::stoi(head.substr(9, 3));
    for (std::size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
      const std::size_t end = head.find("\r\n", at), colon = head.find(": ", at);
      reply.headers[lower(head.substr(at, colon - at))] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
  }
  std::string take(std::size_t bytes) {
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }
  void read_exactly(std::size_t bytes, Reply& reply) {
    while (received_.size() < bytes && receive()) {
    }
    reply.complete = received_.size() >= bytes;
    reply.body += take(std::min(bytes, received_.size()));
  }
  void read_chunks(Reply& reply) {
    while (wait_for("\r\n")) {
      const std::string line = take(received_.find("\r\n") + 2);
      const std::size_t size = std::stoul(line, nullptr, 16);
      Reply chunk;
      read_exactly(size + 2, chunk);
      if (!chunk.complete) return;
      if (size == 0) {
        reply.complete = true;
        return;
      }
      reply.body += chunk.body.substr(0, size);
    }
  }

  int socket_;
  std::string received_;
  bool ended_ = false;
};

/// A request as a well-behaved client writes it.
inline std::string request_text(std::string_view method, std::string_view path, std::string_view body = {},
                                std::string_view more_headers = {}) {
  std::string text;
  text.append(method)
      .append(" ")
      .append(path)
      .append(" HTTP/1.1\r\nHost: localhost\r\n")
      .append(more_headers);
  if (method == "POST") {
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text.append("\r\n").append(body);
}

inline Reply get(int port, std::string_view path, std::string_view more_headers = {}) {
  HttpClient client(port);
  client.send(request_text("GET", path, {}, more_headers));
  return client.read_reply();
}

inline Reply post(int port, std::string_view path, std::string_view body,
                  std::string_view more_headers = {}) {
  HttpClient client(port);
  client.send(request_text("POST", path, body, more_headers));
  return client.read_reply();
}

}  // namespace grokd::test

#pragma once
// One request and its answer: what a handler sees of HTTP.

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "service/config.h"
#include "service/connection.h"
#include "service/http_message.h"
#include "service/key_store.h"
#include "service/request_record.h"

namespace grokd {

class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, HttpRequest request, const ServerConfig& config);

  const HttpRequest& request() const { return request_; }
  Connection& connection() { return *connection_; }
  const std::shared_ptr<Connection>& shared_connection() const { return connection_; }
  /// What the log line of this request will say.
  RequestRecord& record() { return record_; }

  /// Of the key that the request showed; null where none is needed.
  const std::shared_ptr<KeyAccount>& account() const { return account_; }
  void set_account(std::shared_ptr<KeyAccount> account);

  /// False: the client left. Throws ApiError.
  boost::asio::awaitable<bool> read_body();
  /// Added to the answer, whichever it will be; before it starts.
  void add_header(std::string name, std::string value);
  void close_after_answer() { keep_alive_ = false; }

  /// The whole answer. Throws system_error when the client is gone, as all that write do.
  boost::asio::awaitable<void> reply(const HttpResponse& response);
  boost::asio::awaitable<void> reply(const api::ApiError& error);

  /// An event stream: header, then events ("data: ...\n\n", one or more whole ones a write), then its end.
  boost::asio::awaitable<void> start_stream();
  boost::asio::awaitable<void> write(std::string_view events);
  boost::asio::awaitable<void> finish_stream();

  Connection::SteadyTime last_write() const { return last_write_; }

  bool started() const { return started_; }
  bool keep_alive() const;

 private:
  std::string head(int status, std::string_view content_type) const;

  std::shared_ptr<Connection> connection_;
  HttpRequest request_;
  RequestRecord record_;
  std::shared_ptr<KeyAccount> account_;
  std::vector<Header> headers_;
  std::string frame_;  // storage of the chunk being written
  Connection::SteadyTime last_write_;
  bool keep_alive_ = true;
  bool started_ = false;
  bool chunked_ = false;
};

/// A new random id of 32 hexadecimal digits.
std::string random_id();

}  // namespace grokd

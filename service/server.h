#pragma once
// Owns sockets, threads and everything requests share; one object is one running server.

#include <functional>
#include <memory>
#include <string>

#include "service/config.h"
#include "service/metrics.h"
#include "service/model_host.h"

namespace grokd {

class Server {
 public:
  /// Takes the port. Throws ConfigError when it cannot.
  Server(ServerConfig config, ModelConfig model, api::ChatTemplate chat_template);
  ~Server();  // as stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts to accept; returns at once.
  void start();
  int port() const;
  std::string address() const;  // "http://127.0.0.1:8080"

  ModelHost& host();
  Metrics& metrics();
  const ServerConfig& config() const;

  /// Begins to drain on SIGTERM or SIGINT; a second signal ends the process at once.
  void drain_on_signals();
  /// /readyz says draining; new requests are refused after the drain delay; running ones may go on until the
  /// drain timeout, then they end with an error. `wait` returns when all is done. Any thread.
  void drain();
  /// Ends everything at once, with this exit code for `wait`. Any thread.
  void stop(int exit_code = 0);
  /// Until drained or stopped. Returns the exit code.
  int wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

#pragma once
// Owns sockets, threads and everything requests share; one object is one running server.

#include <functional>
#include <memory>
#include <string>

#include "service/config.h"
#include "service/metrics.h"
#include "service/model_host.h"
#include "service/supervisor.h"

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
  int metrics_port() const;  // -1: it has none of its own
  std::string address() const;  // "http://127.0.0.1:8080"

  ModelHost& host();
  Metrics& metrics();
  const ServerConfig& config() const;

  /// Begins to drain on SIGTERM or SIGINT; a second signal ends the process at once.
  void drain_on_signals();
  /// Tells it when the model is ready, that the engine is alive, and that the server stops.
  void report_to(Supervisor supervisor);
  /// Does `reload` on SIGHUP.
  void reload_on_hangup();
  /// Reads the key file and the certificate again; what is wrong with them goes to the log, and the old ones
  /// stay. Any thread.
  void reload();
  /// /readyz says draining; new requests are refused after the drain delay; running ones may go on until the
  /// drain timeout, then they end with an error. `wait` returns when all is done. Any thread.
  void drain();
  /// Ends everything at once, with this exit code for `wait`. Any thread.
  void stop(int exit_code = 0);
  /// Ends with exit code 1 a second later: until then error events go out and /livez is red. Any thread.
  void stop_after_failure();
  /// Until drained or stopped. Returns the exit code.
  int wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grokd

#pragma once
// Every limit, timeout and choice of the server: a value, read-only once the server has started.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "api/common.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "service/key_store.h"

namespace grokd {

using Milliseconds = std::chrono::milliseconds;

/// Bounds on what a client may send and how slowly it may do so.
struct HttpLimits {
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_target_bytes = 8 << 10;
  std::size_t max_body_bytes = 4 << 20;
  int max_connections = 4096;
  Milliseconds header_timeout{10'000};       // from the first byte (or accept) to the end of the header
  Milliseconds body_timeout{30'000};         // or longer while at least `min_body_rate` holds
  std::size_t min_body_rate = 1024;          // bytes a second
  Milliseconds idle_timeout{75'000};         // between two requests of a connection
  std::size_t max_output_bytes = 1 << 20;    // waiting for a slow reader; with more it is cut off
  Milliseconds slow_reader_timeout{30'000};  // a write that makes no progress for so long ends the connection
  Milliseconds ping_interval{15'000};        // comment lines in a silent stream
  Milliseconds probe_interval{1'000};        // comment lines after the client closed its sending side
  Milliseconds plain_close_grace{1'000};     // the same for plain answers: then the client counts as gone
  Milliseconds linger{1'000};                // reading on after a refusal, so that the client sees the answer
};

struct ServerConfig {
  std::string host = "127.0.0.1";
  int port = 8080;                               // 0 = any free one
  int metrics_port = -1;                         // /metrics and health on a port of their own; -1 = on `port`
  std::string tls_certificate, tls_private_key;  // PEM files; "" = plain HTTP. Read again on SIGHUP
  int io_threads = 0;                            // 0 = one on up to two cores, else two
  int workers = 0;  // threads that encode prompts; 0 = one on up to two cores, else two

  std::string model_dir;
  std::string model_id;              // "" = the name in config.json
  std::vector<std::string> aliases;  // other names a request may use
  std::string chat_template;         // "" = the model's own, else a named one
  bool strict_chat = false;          // a line of a message that would open a turn is indented
  RunnerOptions runner;
  int data_parallel = 1;  // replicas of the model, each with slots and cache of its own
  EngineConfig engine;

  std::vector<ApiKey> api_keys;           // none = no key needed
  std::string api_key_file;               // where they came from; read again on SIGHUP
  KeyLimits key_limits;                   // of keys whose line in the file says nothing else
  bool load_without_key = false;          // /load for load balancers
  std::vector<std::string> cors_origins;  // "*" = any

  HttpLimits http;
  api::RequestLimits requests;      // vocabulary and context are filled in from the model
  int chat_max_tokens = 4096;       // when a chat request does not say
  Milliseconds default_timeout{0};  // whole request; 0 = none

  Milliseconds stall_limit{30'000};    // without a step while work is pending: /livez turns red
  Milliseconds collective_timeout{10'000};  // ranks that are processes: the others are lost after so long
  Milliseconds drain_delay{0};         // after SIGTERM: new requests still served for so long
  Milliseconds drain_timeout{30'000};  // then running ones may go on for so long
  bool vllm_metrics = false;           // also the names vLLM uses
  std::string log_level = "info";
  std::string otlp_endpoint;  // collector of traces, "http://HOST[:PORT][/PATH]"; "" = none
};

}  // namespace grokd

// The server on the CUDA backend over emulated devices: the CPU's answers, and what happens when a device
// fails.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "service/model_loader.h"
#include "service/server.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/support/http_client.h"
#include "tests/support/test_server.h"

namespace grokd::test {
namespace {

const char* const kTinyA = GROKD_CHECKPOINT_DIR "/tiny-a";

/// A server with tiny-a on a backend, from its flags to its sockets.
class ModelServer {
 public:
  explicit ModelServer(const std::string& backend)
      : config_(config_for(backend)),
        server_(config_, load_model_config(kTinyA), choose_chat_template("", load_model_config(kTinyA))) {
    server_.start();
    loader_ = load_in_background(server_);
    loader_.join();
  }

  Reply complete(const std::string& body) const { return post(server_.port(), "/v1/completions", body); }
  Reply get(const std::string& path) const { return test::get(server_.port(), path); }

 private:
  static ServerConfig config_for(const std::string& backend) {
    ServerConfig config = ServerSetup::quick_config();
    config.model_dir = kTinyA;
    config.runner.backend = backend;
    config.runner.max_sequences = config.engine.slots = 2;
    config.runner.max_batch_tokens = config.engine.step_tokens = 16;
    return config;
  }

  ServerConfig config_;
  Server server_;
  std::thread loader_;
};

constexpr const char* kRequest =
    R"({"model":"tiny-a","prompt":"The little house","max_tokens":8,"seed":5,"temperature":0.8,"logprobs":3})";

nlohmann::json answer_of(const Reply& reply) {
  REQUIRE(reply.status == 200);
  return nlohmann::json::parse(reply.body)["choices"];
}

}  // namespace

TEST_CASE("the server answers over HTTP with the CPU's tokens and log-probabilities") {
  const ModelServer cpu("cpu"), cuda("auto");
  CHECK(answer_of(cuda.complete(kRequest)) == answer_of(cpu.complete(kRequest)));
}

TEST_CASE("a device that fails ends requests with an error and turns the server's health red") {
  const ModelServer server("cuda");
  CHECK(server.get("/livez").status == 200);
  cuda_emulation::fail_after(40);
  const Reply reply = server.complete(kRequest);
  cuda_emulation::fail_after(-1);
  CHECK(reply.status >= 500);
  CHECK(server.get("/livez").status == 503);
}

}  // namespace grokd::test

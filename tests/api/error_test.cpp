#include "api/error.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace grokd::api;

namespace {

struct Row {
  ApiError error;
  int status;
  std::string type, code;
};

std::vector<Row> rows() {
  const std::vector<std::string> served = {"grok-1", "small"};
  const std::string invalid = "invalid_request_error";
  return {
      {errors::invalid_json("x."), 400, invalid, "invalid_json"},
      {errors::json_too_deep(64), 400, invalid, "json_too_deep"},
      {errors::invalid_type("n", "x."), 400, invalid, "invalid_type"},
      {errors::invalid_body_type(), 400, invalid, "invalid_type"},
      {errors::missing_required_parameter("n"), 400, invalid, "missing_required_parameter"},
      {errors::invalid_value("n", "x."), 400, invalid, "invalid_value"},
      {errors::unsupported_parameter("n", "x."), 400, invalid, "unsupported_parameter"},
      {errors::context_length_exceeded("prompt", 64, 70), 400, invalid, "context_length_exceeded"},
      {errors::invalid_token("prompt", "x."), 400, invalid, "invalid_token"},
      {errors::bad_request_framing("x."), 400, invalid, "bad_request_framing"},
      {errors::invalid_api_key(), 401, "authentication_error", "invalid_api_key"},
      {errors::forbidden("x."), 403, "permission_error", "forbidden"},
      {errors::model_not_found("m", served), 404, invalid, "model_not_found"},
      {errors::unknown_url("/x"), 404, invalid, "unknown_url"},
      {errors::method_not_allowed("PUT", "GET"), 405, invalid, "method_not_allowed"},
      {errors::request_timeout(), 408, invalid, "request_timeout"},
      {errors::length_required(), 411, invalid, "length_required"},
      {errors::request_too_large(4), 413, invalid, "request_too_large"},
      {errors::uri_too_long(4), 414, invalid, "uri_too_long"},
      {errors::unsupported_media_type("x."), 415, invalid, "unsupported_media_type"},
      {errors::expectation_failed("x"), 417, invalid, "expectation_failed"},
      {errors::headers_too_large(4), 431, invalid, "headers_too_large"},
      {errors::queue_full(1), 429, "rate_limit_error", "queue_full"},
      {errors::internal_error(false), 500, "server_error", "internal_error"},
      {errors::numeric_error(), 500, "server_error", "numeric_error"},
      {errors::model_loading(1), 503, "server_error", "model_loading"},
      {errors::shutting_down(1), 503, "server_error", "shutting_down"},
      {errors::engine_unavailable(1), 503, "server_error", "engine_unavailable"},
      {errors::deadline_exceeded(), 504, "server_error", "deadline_exceeded"},
  };
}

}  // namespace

TEST_CASE("every error code has the status and type of the contract") {
  for (const Row& row : rows()) {
    CAPTURE(row.code);
    CHECK(row.error.status == row.status);
    CHECK(row.error.type == row.type);
    CHECK(row.error.code == row.code);
    CHECK(row.error.message.ends_with('.'));
    CHECK(row.error.retry_after_seconds.has_value() == (row.status == 429 || row.status == 503));
  }
}

TEST_CASE("the error body always has its four keys") {
  CHECK(
      to_json(errors::invalid_value("stop", "It is \"wrong\".")) ==
      R"({"error":{"message":"It is \"wrong\".","type":"invalid_request_error","param":"stop","code":"invalid_value"}})");
  CHECK(to_json(errors::deadline_exceeded()) ==
        R"({"error":{"message":"The deadline of the request passed before anything was produced.",)"
        R"("type":"server_error","param":null,"code":"deadline_exceeded"}})");
}

TEST_CASE("Retry-After stays between 1 and 120 seconds") {
  CHECK(errors::queue_full(0).retry_after_seconds == 1);
  CHECK(errors::queue_full(7).retry_after_seconds == 7);
  CHECK(errors::shutting_down(3600).retry_after_seconds == 120);
}

TEST_CASE("an error that the same input will cause again tells the client not to retry") {
  CHECK(errors::numeric_error().should_retry == false);
  CHECK(errors::internal_error(true).should_retry == false);
  CHECK_FALSE(errors::internal_error(false).should_retry.has_value());
}

TEST_CASE("bytes of a client are quoted as printable ASCII and cut at 64") {
  CHECK(quote_bytes("a\"\\\n\xFF") == R"("a\x22\x5C\x0A\xFF")");
  CHECK(quote_bytes(std::string(70, 'a')) == '"' + std::string(64, 'a') + "...\"");
}

TEST_CASE("an unknown model's message names the served ones") {
  const std::vector<std::string> served = {"grok-1", "small"};
  const ApiError error = errors::model_not_found("gpt\n", served);
  CHECK(error.message == R"(The model "gpt\x0A" is not served here. Served: grok-1 small.)");
  CHECK(error.param == "model");
}

TEST_CASE("a too long prompt's message gives context and prompt tokens") {
  const ApiError error = errors::context_length_exceeded("messages", 64, 70);
  CHECK(error.param == "messages");
  CHECK(error.message.find("64 tokens") != std::string::npos);
  CHECK(error.message.find("70 tokens") != std::string::npos);
}

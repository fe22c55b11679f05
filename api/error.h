#pragma once
// The error body every refusal carries, as an exception with its HTTP status.

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace grokd::api {

class ApiError : public std::exception {
 public:
  int status = 500;
  std::string type, code, message;
  std::optional<std::string> param;
  std::optional<int> retry_after_seconds;  // header Retry-After, 1..120
  std::optional<bool> should_retry;        // header x-should-retry

  const char* what() const noexcept override { return message.c_str(); }
};

/// {"error":{"message","type","param","code"}}, all four keys always there.
std::string to_json(const ApiError& error);

/// Bytes of a client made safe for a message: double quotes, escapes for what is not printable ASCII, at most
/// 64 characters of the original.
std::string quote_bytes(std::string_view bytes);

/// One factory per code. `param` is the path of the field at fault, e.g. "messages[2].content".
namespace errors {

// 400
ApiError invalid_json(std::string message);
ApiError json_too_deep(int limit);
ApiError invalid_type(std::string param, std::string message);
ApiError invalid_body_type();  // the body is JSON but not an object; no param
ApiError missing_required_parameter(std::string param);
ApiError invalid_value(std::string param, std::string message);
ApiError unsupported_parameter(std::string param, std::string message);
ApiError context_length_exceeded(std::string param, std::int64_t context, std::int64_t prompt_tokens);
ApiError invalid_token(std::string param, std::string message);
ApiError bad_request_framing(std::string message);
// 401, 403, 404
ApiError invalid_api_key();
ApiError forbidden(std::string message);
ApiError model_not_found(std::string_view model, std::span<const std::string> served);
ApiError unknown_url(std::string_view path);
// Other answers of the HTTP layer
ApiError method_not_allowed(std::string_view method, std::string_view allowed);  // 405
ApiError request_timeout();                                                      // 408
ApiError length_required();                                                      // 411
ApiError request_too_large(std::int64_t limit_bytes);                            // 413
ApiError uri_too_long(std::int64_t limit_bytes);                                 // 414
ApiError unsupported_media_type(std::string message);                            // 415
ApiError expectation_failed(std::string_view expectation);                       // 417
ApiError headers_too_large(std::int64_t limit_bytes);                            // 431
// 429, 500, 503, 504; seconds are clamped to 1..120
ApiError queue_full(int retry_after_seconds);
/// What one key may use is used up.
ApiError rate_limit_exceeded(std::string message, int retry_after_seconds);
ApiError internal_error(bool repeatable);  // repeatable: the same input will fail again
ApiError numeric_error();
ApiError model_loading(int retry_after_seconds);
ApiError shutting_down(int retry_after_seconds);
ApiError engine_unavailable(int retry_after_seconds);
ApiError deadline_exceeded();

}  // namespace errors

}  // namespace grokd::api

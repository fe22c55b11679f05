#include "api/error.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "api/json_writer.h"

namespace grokd::api {
namespace {

struct ErrorKind {
  std::string_view code, type;
  int status;
};

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kServer = "server_error";

constexpr std::array kErrorKinds = {
    ErrorKind{"invalid_json", kInvalid, 400},
    ErrorKind{"json_too_deep", kInvalid, 400},
    ErrorKind{"invalid_type", kInvalid, 400},
    ErrorKind{"missing_required_parameter", kInvalid, 400},
    ErrorKind{"invalid_value", kInvalid, 400},
    ErrorKind{"unsupported_parameter", kInvalid, 400},
    ErrorKind{"context_length_exceeded", kInvalid, 400},
    ErrorKind{"invalid_token", kInvalid, 400},
    ErrorKind{"bad_request_framing", kInvalid, 400},
    ErrorKind{"invalid_api_key", "authentication_error", 401},
    ErrorKind{"forbidden", "permission_error", 403},
    ErrorKind{"model_not_found", kInvalid, 404},
    ErrorKind{"unknown_url", kInvalid, 404},
    ErrorKind{"method_not_allowed", kInvalid, 405},
    ErrorKind{"request_timeout", kInvalid, 408},
    ErrorKind{"length_required", kInvalid, 411},
    ErrorKind{"request_too_large", kInvalid, 413},
    ErrorKind{"uri_too_long", kInvalid, 414},
    ErrorKind{"unsupported_media_type", kInvalid, 415},
    ErrorKind{"expectation_failed", kInvalid, 417},
    ErrorKind{"queue_full", "rate_limit_error", 429},
    ErrorKind{"rate_limit_exceeded", "rate_limit_error", 429},
    ErrorKind{"headers_too_large", kInvalid, 431},
    ErrorKind{"internal_error", kServer, 500},
    ErrorKind{"numeric_error", kServer, 500},
    ErrorKind{"model_loading", kServer, 503},
    ErrorKind{"shutting_down", kServer, 503},
    ErrorKind{"engine_unavailable", kServer, 503},
    ErrorKind{"deadline_exceeded", kServer, 504},
};

ApiError make(std::string_view code, std::string message, std::optional<std::string> param = std::nullopt) {
  const auto kind = std::ranges::find(kErrorKinds, code, &ErrorKind::code);
  if (kind == kErrorKinds.end()) std::abort();
  ApiError error;
  error.status = kind->status;
  error.type = kind->type;
  error.code = kind->code;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError make_retry(std::string_view code, std::string message, int seconds) {
  ApiError error = make(code, std::move(message));
  error.retry_after_seconds = std::clamp(seconds, 1, 120);
  return error;
}

std::string text(std::string_view view) { return std::string(view); }

}  // namespace

std::string to_json(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  append_string(out, error.message);
  out += R"(,"type":)";
  append_string(out, error.type);
  out += R"(,"param":)";
  if (error.param) {
    append_string(out, *error.param);
  } else {
    out += "null";
  }
  out += R"(,"code":)";
  append_string(out, error.code);
  out += "}}";
  return out;
}

std::string quote_bytes(std::string_view bytes) {
  constexpr std::size_t kMaxQuoted = 64;
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : bytes.substr(0, kMaxQuoted)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (bytes.size() > kMaxQuoted) out += "...";
  out += '"';
  return out;
}

namespace errors {

ApiError invalid_json(std::string message) { return make("invalid_json", std::move(message)); }

ApiError json_too_deep(int limit) {
  return make("json_too_deep", "The JSON body is nested deeper than " + std::to_string(limit) + " levels.");
}

ApiError invalid_type(std::string param, std::string message) {
  return make("invalid_type", std::move(message), std::move(param));
}

ApiError invalid_body_type() { return make("invalid_type", "The request body must be a JSON object."); }

ApiError missing_required_parameter(std::string param) {
  std::string message = "The parameter '" + param + "' is required.";
  return make("missing_required_parameter", std::move(message), std::move(param));
}

ApiError invalid_value(std::string param, std::string message) {
  return make("invalid_value", std::move(message), std::move(param));
}

ApiError unsupported_parameter(std::string param, std::string message) {
  return make("unsupported_parameter", std::move(message), std::move(param));
}

ApiError context_length_exceeded(std::string param, std::int64_t context, std::int64_t prompt_tokens) {
  return make("context_length_exceeded",
              "This model's context is " + std::to_string(context) + " tokens, and the prompt has " +
                  std::to_string(prompt_tokens) + " tokens; it must be shorter than the context.",
              std::move(param));
}

ApiError invalid_token(std::string param, std::string message) {
  return make("invalid_token", std::move(message), std::move(param));
}

ApiError bad_request_framing(std::string message) { return make("bad_request_framing", std::move(message)); }

ApiError invalid_api_key() {
  return make("invalid_api_key", "A valid API key is needed: send it as 'Authorization: Bearer <key>'.");
}

ApiError forbidden(std::string message) { return make("forbidden", std::move(message)); }

ApiError model_not_found(std::string_view model, std::span<const std::string> served) {
  std::string message = "The model " + quote_bytes(model) + " is not served here. Served:";
  for (const std::string& name : served) message += " " + name;
  return make("model_not_found", message + ".", "model");
}

ApiError unknown_url(std::string_view path) {
  return make("unknown_url", "There is nothing at " + quote_bytes(path) + ".");
}

ApiError method_not_allowed(std::string_view method, std::string_view allowed) {
  return make("method_not_allowed",
              "The method " + quote_bytes(method) + " is not allowed here; allowed: " + text(allowed) + ".");
}

ApiError request_timeout() { return make("request_timeout", "The request was not sent in time."); }

ApiError length_required() {
  return make("length_required", "The request needs a Content-Length or 'Transfer-Encoding: chunked'.");
}

ApiError request_too_large(std::int64_t limit_bytes) {
  return make("request_too_large",
              "The request body is larger than " + std::to_string(limit_bytes) + " bytes.");
}

ApiError uri_too_long(std::int64_t limit_bytes) {
  return make("uri_too_long", "The request target is longer than " + std::to_string(limit_bytes) + " bytes.");
}

ApiError unsupported_media_type(std::string message) {
  return make("unsupported_media_type", std::move(message));
}

ApiError expectation_failed(std::string_view expectation) {
  return make("expectation_failed", "The expectation " + quote_bytes(expectation) + " cannot be met.");
}

ApiError headers_too_large(std::int64_t limit_bytes) {
  return make("headers_too_large",
              "The request headers are larger than " + std::to_string(limit_bytes) + " bytes.");
}

ApiError queue_full(int retry_after_seconds) {
  return make_retry("queue_full", "Too many requests are waiting; try again later.", retry_after_seconds);
}

ApiError rate_limit_exceeded(std::string message, int retry_after_seconds) {
  return make_retry("rate_limit_exceeded", std::move(message), retry_after_seconds);
}

ApiError internal_error(bool repeatable) {
  ApiError error = make("internal_error", "The server failed while answering this request.");
  if (repeatable) error.should_retry = false;
  return error;
}

ApiError numeric_error() {
  ApiError error = make("numeric_error", "The model produced numbers that are not finite for this input.");
  error.should_retry = false;
  return error;
}

ApiError model_loading(int retry_after_seconds) {
  return make_retry("model_loading", "The model is still loading.", retry_after_seconds);
}

ApiError shutting_down(int retry_after_seconds) {
  return make_retry("shutting_down", "The server is shutting down.", retry_after_seconds);
}

ApiError engine_unavailable(int retry_after_seconds) {
  return make_retry("engine_unavailable", "The engine is not available.", retry_after_seconds);
}

ApiError deadline_exceeded() {
  return make("deadline_exceeded", "The deadline of the request passed before anything was produced.");
}

}  // namespace errors
}  // namespace grokd::api

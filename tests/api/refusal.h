#pragma once
// Running a parse that must be refused, and saying by what.

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "api/chat.h"
#include "api/completion.h"
#include "api/error.h"

namespace grokd::api::test {

/// "400 invalid_value stop"; "accepted" if nothing was thrown. The message must be a sentence of its own.
template <class Action>
std::string refusal_of(Action action) {
  try {
    action();
  } catch (const ApiError& error) {
    CHECK(error.message.ends_with('.'));
    return std::to_string(error.status) + " " + error.code + (error.param ? " " + *error.param : "");
  }
  return "accepted";
}

/// A small model: ids below 100, context 64.
inline RequestLimits small_limits() {
  RequestLimits limits;
  limits.vocab_size = 100;
  limits.context = 64;
  return limits;
}

inline RequestLimits constrained_limits() {
  RequestLimits limits = small_limits();
  limits.constrained_output = true;
  return limits;
}

inline std::string refusal_of_completion(std::string_view body,
                                         const RequestLimits& limits = small_limits()) {
  return refusal_of([&] { parse_completion_request(body, limits); });
}

inline std::string refusal_of_chat(std::string_view body, const RequestLimits& limits = small_limits()) {
  return refusal_of([&] { parse_chat_request(body, limits); });
}

/// A completion body with these members beside the prompt.
inline std::string completion_body(const std::string& members) { return R"({"prompt":"x",)" + members + "}"; }

/// A chat body with these members beside the messages.
inline std::string chat_body(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + members + "}";
}

}  // namespace grokd::api::test

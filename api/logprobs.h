#pragma once
// Log-probabilities of an answer's tokens in the forms of the two routes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace grokd::api {

struct TopLogprob {
  std::string bytes{};  // what the token adds to the text
  float logprob = 0;
};

struct TokenLogprob {
  std::string bytes{};
  std::optional<float> logprob{};  // none: the very first prompt token, nothing precedes it
  std::vector<TopLogprob> top{};   // best first, as many as were asked for
  std::int64_t text_offset = 0;    // completions only; TextOffsets counts it
};

/// The token's text, or `bytes:\xF0\x9F` if its bytes are not valid UTF-8 alone, so that keys stay distinct.
std::string completion_token_text(std::string_view bytes);

/// {"tokens":[...],"token_logprobs":[...],"top_logprobs":[...],"text_offset":[...]}. The sampled token is
/// added to its top_logprobs if it is not among them.
void append_completion_logprobs(std::string& out, std::span<const TokenLogprob> tokens);

/// {"content":[{"token","logprob","bytes","top_logprobs"}],"refusal":null}; broken UTF-8 in "token" is
/// U+FFFD.
void append_chat_logprobs(std::string& out, std::span<const TokenLogprob> tokens);

}  // namespace grokd::api

#include "api/logprobs.h"

#include <algorithm>

#include "api/json_writer.h"
#include "api/utf8.h"

namespace grokd::api {
namespace {

constexpr float kLowestLogprob = -9999.0f;

/// `[one,one,...]` where `append_one` writes an element.
template <class AppendOne>
void append_list(std::string& out, std::span<const TokenLogprob> tokens, AppendOne append_one) {
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_one(tokens[i]);
  }
  out += ']';
}

void append_optional_logprob(std::string& out, const std::optional<float>& logprob) {
  if (logprob) {
    append_logprob(out, *logprob);
  } else {
    out += "null";
  }
}

/// Different ids may have the same text; an object must not have a key twice, so the best one stays.
void append_top_object(std::string& out, const TokenLogprob& token) {
  if (!token.logprob) {
    out += "null";
    return;
  }
  std::vector<std::string_view> keys;
  const auto append_entry = [&](std::string_view bytes, float logprob) {
    if (std::ranges::find(keys, bytes) != keys.end()) return;
    out += keys.empty() ? "" : ",";
    keys.push_back(bytes);
    append_string(out, completion_token_text(bytes));
    out += ':';
    append_logprob(out, logprob);
  };
  out += '{';
  for (const TopLogprob& top : token.top) append_entry(top.bytes, top.logprob);
  append_entry(token.bytes, *token.logprob);
  out += '}';
}

void append_chat_token(std::string& out, std::string_view bytes, float logprob) {
  out += R"({"token":)";
  append_string(out, bytes);
  out += R"(,"logprob":)";
  append_logprob(out, logprob);
  out += R"(,"bytes":)";
  append_bytes(out, bytes);
}

}  // namespace

std::string completion_token_text(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

void append_completion_logprobs(std::string& out, std::span<const TokenLogprob> tokens) {
  out += R"({"tokens":)";
  append_list(out, tokens,
              [&](const auto& token) { append_string(out, completion_token_text(token.bytes)); });
  out += R"(,"token_logprobs":)";
  append_list(out, tokens, [&](const auto& token) { append_optional_logprob(out, token.logprob); });
  out += R"(,"top_logprobs":)";
  append_list(out, tokens, [&](const auto& token) { append_top_object(out, token); });
  out += R"(,"text_offset":)";
  append_list(out, tokens, [&](const auto& token) { append_integer(out, token.text_offset); });
  out += '}';
}

void append_chat_logprobs(std::string& out, std::span<const TokenLogprob> tokens) {
  out += R"({"content":)";
  append_list(out, tokens, [&](const TokenLogprob& token) {
    append_chat_token(out, token.bytes, token.logprob.value_or(kLowestLogprob));
    out += R"(,"top_logprobs":[)";
    for (const TopLogprob& top : token.top) {
      if (&top != token.top.data()) out += ',';
      append_chat_token(out, top.bytes, top.logprob);
      out += '}';
    }
    out += "]}";
  });
  out += R"(,"refusal":null})";
}

}  // namespace grokd::api

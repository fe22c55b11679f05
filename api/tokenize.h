#pragma once
// POST /tokenize and POST /detokenize.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/chat.h"

namespace grokd::api {

struct TokenizeRequest {
  std::string model{};                                          // "" = absent
  std::variant<std::string, std::vector<ChatMessage>> input{};  // "prompt" or "messages"
  std::optional<bool> add_special_tokens{};                     // none: as a completion would
  bool add_generation_prompt = true;                            // with messages
  bool continue_final_message = false;
  bool return_token_strs = false;
};

struct TokenizeResponse {
  std::vector<TokenId> tokens{};
  int max_model_len = 0;
  std::optional<std::vector<std::string>> token_strs{};  // pieces as written in the vocabulary
};

struct DetokenizeRequest {
  std::string model{};  // "" = absent
  std::vector<TokenId> tokens{};
};

struct DetokenizeResponse {
  std::string prompt{};
};

TokenizeRequest parse_tokenize_request(std::string_view body, const RequestLimits& limits);
DetokenizeRequest parse_detokenize_request(std::string_view body, const RequestLimits& limits);
std::string to_json(const TokenizeResponse& response);
std::string to_json(const DetokenizeResponse& response);

}  // namespace grokd::api

#pragma once
// GET /v1/models and GET /v1/models/{id}.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace grokd::api {

struct ModelCard {
  std::string id{};
  std::int64_t created = 0;  // seconds since 1970
  int max_model_len = 0;     // context in tokens
  std::optional<std::string> root{};
  std::string chat_template{};  // name of the format messages are put in, e.g. "plain"
};

std::string to_json(const ModelCard& card);
std::string to_json(std::span<const ModelCard> cards);

}  // namespace grokd::api

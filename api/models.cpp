#include "api/models.h"

#include "api/json_writer.h"

namespace grokd::api {
namespace {

void append_card(std::string& out, const ModelCard& card) {
  out += R"({"id":)";
  append_string(out, card.id);
  out += R"(,"object":"model","created":)";
  append_integer(out, card.created);
  out += R"(,"owned_by":"grokd","max_model_len":)";
  append_integer(out, card.max_model_len);
  out += R"(,"root":)";
  if (card.root) {
    append_string(out, *card.root);
  } else {
    out += "null";
  }
  out += R"(,"chat_template":)";
  append_string(out, card.chat_template);
  out += '}';
}

}  // namespace

std::string to_json(const ModelCard& card) {
  std::string out;
  append_card(out, card);
  return out;
}

std::string to_json(std::span<const ModelCard> cards) {
  std::string out = R"({"object":"list","data":[)";
  for (const ModelCard& card : cards) {
    if (&card != cards.data()) out += ',';
    append_card(out, card);
  }
  out += "]}";
  return out;
}

}  // namespace grokd::api

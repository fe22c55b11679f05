#include "api/tokenize.h"

#include "api/error.h"
#include "api/json_writer.h"

namespace grokd::api {

TokenizeRequest parse_tokenize_request(std::string_view body, const RequestLimits& limits) {
  const JsonValue json = parse_json_object(body);
  FieldReader fields(*json.object());
  TokenizeRequest out;
  out.model = read_model(fields, limits);
  const std::string* prompt = fields.string("prompt");
  if (prompt && fields.find("messages")) {
    throw errors::invalid_value("messages", "'prompt' and 'messages' exclude each other.");
  }
  if (prompt) {
    out.input = *prompt;
  } else if (fields.find("messages")) {
    out.input = read_messages(fields, limits);
    read_turn_end(fields, std::get<1>(out.input), out.add_generation_prompt, out.continue_final_message);
  } else {
    throw errors::missing_required_parameter("prompt");
  }
  out.add_special_tokens = fields.boolean("add_special_tokens");
  out.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  return out;
}

DetokenizeRequest parse_detokenize_request(std::string_view body, const RequestLimits& limits) {
  const JsonValue json = parse_json_object(body);
  FieldReader fields(*json.object());
  DetokenizeRequest out;
  out.model = read_model(fields, limits);
  const JsonArray* tokens = fields.array("tokens");
  if (!tokens) throw errors::missing_required_parameter("tokens");
  // What /tokenize may answer must be accepted here, padding too.
  RequestLimits any_id = limits;
  any_id.pad_token = -1;
  out.tokens = read_prompt_ids(*tokens, "tokens", any_id);
  return out;
}

std::string to_json(const TokenizeResponse& response) {
  std::string out = R"({"tokens":)";
  append_integers(out, response.tokens);
  out += R"(,"count":)";
  append_integer(out, static_cast<std::int64_t>(response.tokens.size()));
  out += R"(,"max_model_len":)";
  append_integer(out, response.max_model_len);
  out += R"(,"token_strs":)";
  if (!response.token_strs) {
    out += "null}";
    return out;
  }
  out += '[';
  for (const std::string& piece : *response.token_strs) {
    if (&piece != response.token_strs->data()) out += ',';
    append_string(out, piece);
  }
  out += "]}";
  return out;
}

std::string to_json(const DetokenizeResponse& response) {
  std::string out = R"({"prompt":)";
  append_string(out, response.prompt);
  out += '}';
  return out;
}

}  // namespace grokd::api

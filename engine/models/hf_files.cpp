#include "engine/models/hf_files.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace grokd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// An empty object when there is no such file.
json read_object(const fs::path& path) {
  std::ifstream stream(path);
  if (!stream) return json::object();
  try {
    json document = json::parse(stream);
    if (document.is_object()) return document;
  } catch (const json::exception& error) {
    throw ConfigError(path.string() + ": not valid JSON: " + error.what());
  }
  throw ConfigError(path.string() + ": must be a JSON object");
}

/// One id or several: the first is the model's, the others end an answer too.
void read_eos(const std::string& where, const json& document, ModelConfig& c) {
  if (!document.contains("eos_token_id") || document["eos_token_id"].is_null()) return;
  const Fields f(where, document);
  const json& value = document["eos_token_id"];
  const int last = c.vocab_size - 1;
  const json ids = value.is_array() ? value : json::array({value});
  if (ids.empty()) return;
  c.eos_token = f.as_integer("eos_token_id", ids.front(), 0, last);
  c.more_eos.clear();
  for (std::size_t i = 1; i < ids.size(); ++i)
    c.more_eos.push_back(f.as_integer("eos_token_id", ids[i], 0, last));
}

TokenId id_of(const Fields& f, const char* key, TokenId otherwise, int vocab_size) {
  return f.has(key) && f.need(key).is_number_integer() ? f.integer(key, -1, vocab_size - 1) : otherwise;
}

std::string chat_template_text(const fs::path& folder, const json& tokenizer_config) {
  if (std::ifstream file(folder / "chat_template.jinja"); file) {
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  const auto found = tokenizer_config.find("chat_template");
  return found != tokenizer_config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

struct FormatMark {
  std::string_view mark, format;
};

// The first mark found decides.
constexpr std::array<FormatMark, 5> kMarks = {{{"<|start_header_id|>", "llama-3"},
                                               {"<|im_start|>", "chatml"},
                                               {"<<SYS>>", "llama-2"},
                                               {"[INST]", "mistral"},
                                               {"<|separator|>", "grok-2"}}};

}  // namespace

std::string built_in_chat_format(const std::string& jinja) {
  for (const FormatMark& mark : kMarks) {
    if (jinja.find(mark.mark) != jinja.npos) return std::string(mark.format);
  }
  return {};
}

void read_token_files(const Fields& f, const std::string& path, ModelConfig& c) {
  const fs::path folder = fs::path(path).parent_path();
  c.pad_token = id_of(f, "pad_token_id", -1, c.vocab_size);
  c.bos_token = id_of(f, "bos_token_id", -1, c.vocab_size);
  c.eos_token = c.unk_token = -1;
  if (f.has("eos_token_id")) read_eos(path, json{{"eos_token_id", f.need("eos_token_id")}}, c);
  const fs::path generation = folder / "generation_config.json";
  read_eos(generation.string(), read_object(generation), c);
  const json tokenizer = read_object(folder / "tokenizer_config.json");
  const Fields t((folder / "tokenizer_config.json").string(), tokenizer);
  const bool llama_like = c.model_type != "grok-1" && c.model_type != "grok-2";
  const bool says = tokenizer.contains("add_bos_token") && !tokenizer["add_bos_token"].is_null();
  c.add_bos = c.bos_token >= 0 && (says ? t.boolean("add_bos_token", false) : llama_like);
  c.chat_format =
      c.model_type == "grok-2" ? "grok-2" : built_in_chat_format(chat_template_text(folder, tokenizer));
  for (const char* name : {"tokenizer.model", "tokenizer.json", "tokenizer.tok.json"}) {
    if (!fs::exists(folder / name)) continue;
    c.tokenizer = name;
    return;
  }
}

}  // namespace grokd

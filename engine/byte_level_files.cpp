// The files of byte-level tokenizers.

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "engine/byte_level_tokenizer.h"
#include "engine/models/config.h"
#include "engine/utf8_chars.h"

namespace grokd {
namespace {

using nlohmann::json;
using Token = ByteLevelModel::Token;

constexpr std::size_t kMostTokens = 1 << 22;

struct KnownPattern {
  std::string_view text;
  WordPattern pattern;
};

constexpr std::array<KnownPattern, 2> kPatterns = {
    {{"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      {3}},
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      {1}}}};

json read_json(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw ConfigError(file + ": cannot be read");
  json document = json::parse(stream, nullptr, false);
  if (!document.is_object()) throw ConfigError(file + ": not valid JSON");
  return document;
}

WordPattern find_pattern(const std::string& file, const std::string& text) {
  for (const KnownPattern& known : kPatterns) {
    if (known.text == text) return known.pattern;
  }
  throw ConfigError(file + ": its pattern of words is not known: " + text);
}

/// GPT-2's way to write any bytes as printable characters, turned around.
std::unordered_map<char32_t, char> bytes_of_chars() {
  std::unordered_map<char32_t, char> bytes;
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    bytes.emplace(itself ? static_cast<char32_t>(byte) : next++, static_cast<char>(byte));
  }
  return bytes;
}

class TokenizerJson {
 public:
  explicit TokenizerJson(std::string file) : file_(std::move(file)), document_(read_json(file_)) {}
  ByteLevelModel read();

 private:
  [[noreturn]] void fail(const std::string& what) const { throw ConfigError(file_ + ": " + what); }
  const json& member(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(std::string("has no ") + key);
    return *found;
  }
  std::string text(const json& object, const char* key) const {
    const json& value = member(object, key);
    if (!value.is_string()) fail(std::string(key) + " is no string");
    return value.get<std::string>();
  }
  std::string bytes_of(const std::string& piece) const;
  WordPattern pattern() const;
  void put(std::size_t id, Token token);
  void read_vocabulary(const json& model);
  void read_merges(const json& model);
  void read_added();

  std::string file_;
  const json document_;
  const std::unordered_map<char32_t, char> bytes_ = bytes_of_chars();
  ByteLevelModel model_;
};

std::string TokenizerJson::bytes_of(const std::string& piece) const {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const Utf8Char c = next_char(std::string_view(piece).substr(at));
    const auto byte = bytes_.find(c.code);
    if (byte == bytes_.end()) return piece;  // not written in that way
    bytes += byte->second;
    at += c.bytes;
  }
  return bytes;
}

/// A split by a pattern, then bytes; nothing else.
WordPattern TokenizerJson::pattern() const {
  const json& steps = member(document_, "pre_tokenizer");
  if (!steps.is_object() || steps.value("type", "") != "Sequence") fail("pre_tokenizer is no Sequence");
  std::string found;
  for (const json& step : member(steps, "pretokenizers")) {
    const std::string type = text(step, "type");
    if (type == "Split" && found.empty() && step.value("behavior", "") == "Isolated" &&
        !step.value("invert", true)) {
      found = text(member(step, "pattern"), "Regex");
    } else if (type != "ByteLevel" || step.value("use_regex", true) || step.value("add_prefix_space", true)) {
      fail("a pre_tokenizer of type " + type + " with these settings is not supported");
    }
  }
  return find_pattern(file_, found);
}

void TokenizerJson::put(std::size_t id, Token token) {
  if (id >= kMostTokens) fail("has an id of " + std::to_string(id));
  if (model_.tokens.size() <= id) model_.tokens.resize(id + 1);
  model_.tokens[id] = std::move(token);
}

void TokenizerJson::read_vocabulary(const json& model) {
  for (const auto& [piece, id] : member(model, "vocab").items()) {
    if (!id.is_number_unsigned()) fail("vocab: " + piece + " has no id");
    put(id.get<std::size_t>(), {bytes_of(piece), piece, false, false});
  }
}

void TokenizerJson::read_merges(const json& model) {
  std::unordered_map<std::string_view, Symbol> ids;
  for (std::size_t id = 0; id < model_.tokens.size(); ++id)
    ids.emplace(model_.tokens[id].piece, static_cast<Symbol>(id));
  float score = 0;
  for (const json& merge : member(model, "merges")) {
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0], right = merge[1];
    } else if (merge.is_string()) {
      const auto both = merge.get<std::string>();
      const std::size_t space = both.find(' ');
      left = both.substr(0, space);
      right = space == both.npos ? "" : both.substr(space + 1);
    }
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || both == ids.end())
      fail("a merge is not of tokens of the vocabulary");
    model_.merges.push_back({a->second, b->second, both->second, score});
    score -= 1;
  }
}

void TokenizerJson::read_added() {
  if (!document_.contains("added_tokens")) return;
  for (const json& token : document_["added_tokens"]) {
    const std::string content = text(token, "content");
    if (token.value("lstrip", false) || token.value("rstrip", false) || token.value("single_word", false))
      fail("added token " + content + " takes spaces with it, which is not supported");
    const json& id = member(token, "id");
    if (!id.is_number_unsigned()) fail("added token " + content + " has no id");
    put(id.get<std::size_t>(), {content, content, true, token.value("special", false)});
  }
}

ByteLevelModel TokenizerJson::read() {
  const json& model = member(document_, "model");
  if (text(model, "type") != "BPE") fail("model: type " + text(model, "type") + " is not supported, BPE is");
  if (model.value("byte_fallback", false))
    fail("model: byte_fallback is not supported here; a tokenizer.model is");
  if (document_.contains("normalizer") && !document_["normalizer"].is_null())
    fail("a normalizer is not supported");
  model_.pattern = pattern();
  model_.whole_words = model.value("ignore_merges", false);
  read_vocabulary(model);
  read_merges(model);
  read_added();
  return std::move(model_);
}

/// A token of tokenizer.tok.json: [[bytes], id].
void put_tok(ByteLevelModel& model, const std::string& file, const json& entry, bool special) {
  if (!entry.is_object() || !entry.contains("bytes") || !entry["bytes"].is_array() ||
      !entry.contains("token") || !entry["token"].is_number_unsigned() ||
      entry["token"].get<std::size_t>() >= kMostTokens)
    throw ConfigError(file + ": has a token without bytes or id");
  std::string bytes;
  for (const json& byte : entry["bytes"]) {
    if (!byte.is_number_unsigned() || byte.get<unsigned>() > 255)
      throw ConfigError(file + ": has a byte that is none");
    bytes += static_cast<char>(byte.get<unsigned>());
  }
  const auto id = entry["token"].get<std::size_t>();
  if (model.tokens.size() <= id) model.tokens.resize(id + 1);
  // The end of a turn keeps its text, which chat formats stop at.
  model.tokens[id] = {bytes, bytes, special, special && bytes != "<|separator|>"};
}

/// Any two tokens whose bytes together are a token merge; the lowest id first.
void merge_all(ByteLevelModel& model) {
  std::unordered_map<std::string_view, Symbol> ids;
  for (std::size_t id = 0; id < model.tokens.size(); ++id) {
    if (!model.tokens[id].added) ids.emplace(model.tokens[id].bytes, static_cast<Symbol>(id));
  }
  for (const auto& [bytes, id] : ids) {
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = ids.find(bytes.substr(0, cut)), right = ids.find(bytes.substr(cut));
      if (left != ids.end() && right != ids.end())
        model.merges.push_back({left->second, right->second, id, static_cast<float>(-id)});
    }
  }
}

}  // namespace

ByteLevelModel read_tokenizer_json(const std::string& file) {
  try {
    return TokenizerJson(file).read();
  } catch (const json::exception& error) {
    throw ConfigError(file + ": is no tokenizer: " + error.what());
  }
}

ByteLevelModel read_tok_json(const std::string& file) {
  const json document = read_json(file);
  ByteLevelModel model;
  model.whole_words = true;
  const bool split = document.contains("word_split") && document["word_split"] == "V1";
  if (!split) throw ConfigError(file + ": word_split is not V1");
  model.pattern = kPatterns[1].pattern;
  if (document.contains("pat_str") && document["pat_str"].is_string())
    model.pattern = find_pattern(file, document["pat_str"].get<std::string>());
  for (const char* list : {"regular_tokens", "special_tokens"}) {
    if (!document.contains(list) || !document[list].is_array()) throw ConfigError(file + ": has no " + list);
    for (const json& entry : document[list])
      put_tok(model, file, entry, std::string_view(list) == "special_tokens");
  }
  merge_all(model);
  return model;
}

}  // namespace grokd

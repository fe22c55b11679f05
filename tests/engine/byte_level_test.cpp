// Byte-level tokenizers against `tokenizers` and `tiktoken`: tests/golden/makers/make_byte_level.py.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "engine/byte_level_tokenizer.h"
#include "engine/models/config.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;
using nlohmann::json;

namespace {

/// A larger set made by hand may stand in the environment.
std::string folder() {
  const char* other = std::getenv("GROKD_BYTE_LEVEL");
  return other ? other : GROKD_GOLDEN_DIR "/byte-level";
}

json golden_ids() {
  std::ifstream in(folder() + "/ids.json");
  return json::parse(in);
}

void check_all(const Tokenizer& tokenizer, const char* library) {
  const json rows = golden_ids();
  REQUIRE(rows.size() >= 300);
  for (const json& row : rows) {
    const auto text = row["text"].get<std::string>();
    CAPTURE(text);
    const auto ids = tokenizer.encode(text);
    REQUIRE(ids == row[library].get<std::vector<TokenId>>());
    std::string bytes;
    for (const TokenId id : ids)
      bytes += tokenizer.is_control(id) ? tokenizer.piece(id) : tokenizer.bytes(id);
    REQUIRE(bytes == text);
  }
}

}  // namespace

TEST_CASE("a tokenizer.json gives the ids of the library that wrote it") {
  check_all(*make_byte_level_tokenizer(read_tokenizer_json(folder() + "/tokenizer.json")), "tokenizers");
}

TEST_CASE("a tokenizer.tok.json gives tiktoken's ids") {
  check_all(*make_byte_level_tokenizer(read_tok_json(folder() + "/tokenizer.tok.json")), "tiktoken");
}

TEST_CASE("a byte-level tokenizer never finds markers in plain text, and its control tokens add none") {
  const auto tokenizer = make_byte_level_tokenizer(read_tokenizer_json(folder() + "/tokenizer.json"));
  const TokenId marker = tokenizer->find("<|eot_id|>");
  REQUIRE(marker > 0);
  CHECK(tokenizer->is_control(marker));
  CHECK(tokenizer->encode("<|eot_id|>") == std::vector<TokenId>{marker});
  const auto plain = tokenizer->encode_plain("<|eot_id|>", true);
  CHECK(plain.size() > 1);
  CHECK(tokenizer->decode(plain) == "<|eot_id|>");
  CHECK(tokenizer->decode({marker}) == "");
}

TEST_CASE("what a tokenizer.json asks for and nobody has built is named") {
  const auto complaint = [](const std::function<void(json&)>& change) {
    std::ifstream in(GROKD_GOLDEN_DIR "/byte-level/tokenizer.json");
    json document = json::parse(in);
    change(document);
    const TempFolder copy;
    const std::string file = copy.path() + "/tokenizer.json";
    std::ofstream(file) << document;
    return message_of<ConfigError>([&] { read_tokenizer_json(file); }).substr(file.size());
  };
  CHECK(complaint([](json& t) { t["model"]["type"] = "Unigram"; }) ==
        ": model: type Unigram is not supported, BPE is");
  CHECK(complaint([](json& t) { t["normalizer"] = {{"type", "NFC"}}; }) == ": a normalizer is not supported");
  CHECK(complaint([](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"; }) ==
        ": its pattern of words is not known: \\w+");
  CHECK(complaint([](json& t) { t["model"]["merges"][0] = "nowhere tobefound"; }) ==
        ": a merge is not of tokens of the vocabulary");
  CHECK(complaint([](json& t) { t = json::array(); }) == ": not valid JSON");
}

// The byte-pair encoder against the SentencePiece library, on text of every kind.

#include <doctest/doctest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <random>

#include "engine/sentencepiece_bpe.h"

using namespace grokd;

namespace {

class TextMaker {
 public:
  TextMaker(std::uint32_t seed, const SentencePieceModel& model) : random_(seed), model_(model) {}

  std::string text(int parts) {
    std::string text;
    for (int i = 0; i < parts; ++i) add_part(text);
    return text;
  }

 private:
  void add_part(std::string& text) {
    switch (random_() % 8) {
      case 0:
        text += std::string(random_() % 5, ' ');
        break;
      case 1:
        text += static_cast<char>(random_());
        break;
      case 2:
        add_char(text, 0x80 + random_() % 0x10FF80);
        break;
      case 3:
        add_char(text, 0x4E00 + random_() % 200);
        break;
      case 4:
        text += std::string(random_() % 70, static_cast<char>('a' + random_() % 3));
        break;
      default:
        text += model_.pieces[random_() % model_.pieces.size()].text;
    }
  }
  static void add_char(std::string& text, std::uint32_t c) {
    if (c < 0x800) {
      text += static_cast<char>(0xC0 | (c >> 6));
    } else {
      text += c < 0x10000 ? static_cast<char>(0xE0 | (c >> 12)) : static_cast<char>(0xF0 | (c >> 18));
      if (c >= 0x10000) text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
      text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    }
    text += static_cast<char>(0x80 | (c & 0x3F));
  }

  std::mt19937 random_;
  const SentencePieceModel& model_;
};

const char* const kModels[] = {GROKD_GOLDEN_DIR "/tokenizers/spm512.model",
                               GROKD_GOLDEN_DIR "/tokenizers/spm1024.model",
                               GROKD_DEMO_MODEL "/tokenizer.model"};

}  // namespace

TEST_CASE("the byte-pair encoder gives SentencePiece's ids for random texts of words, scripts and bytes") {
  for (const char* file : kModels) {
    CAPTURE(file);
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.Load(file).ok());
    const auto model = read_sentencepiece_model(library.serialized_model_proto());
    const auto encoder = make_sentencepiece_bpe(*model);
    REQUIRE(encoder);
    TextMaker maker(7, *model);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = maker.text(1 + i % 60);
      REQUIRE(encoder->encode(text, model->add_dummy_prefix) == library.EncodeAsIds(text));
    }
    const std::string whole = maker.text(20000);
    CHECK(encoder->encode(whole, model->add_dummy_prefix) == library.EncodeAsIds(whole));
  }
}

TEST_CASE("without its start space a text is encoded as it is after a line break") {
  sentencepiece::SentencePieceProcessor library;
  REQUIRE(library.Load(kModels[0]).ok());
  const auto model = read_sentencepiece_model(library.serialized_model_proto());
  const auto encoder = make_sentencepiece_bpe(*model);
  TextMaker maker(8, *model);
  for (int i = 0; i < 500; ++i) {
    const std::string text = "x" + maker.text(10);
    auto ids = library.EncodeAsIds("\n" + text);
    ids.erase(ids.begin(), std::find(ids.begin(), ids.end(), library.PieceToId("\n")) + 1);
    REQUIRE(encoder->encode(text, false) == ids);
  }
}

TEST_CASE("models that only the library can encode are left to it") {
  SentencePieceModel model;
  model.pieces = {{"a", 0, SentencePieceModel::PieceType::normal}};
  model.removes_spaces = false;
  CHECK_FALSE(make_sentencepiece_bpe(model));  // no byte pairs
  model.byte_pair = true;
  CHECK(make_sentencepiece_bpe(model));
  model.has_charsmap = true;
  CHECK_FALSE(make_sentencepiece_bpe(model));
  model.has_charsmap = false;
  model.pieces.push_back({"b", 0, SentencePieceModel::PieceType::unused});
  CHECK_FALSE(make_sentencepiece_bpe(model));
}

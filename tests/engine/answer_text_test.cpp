#include "engine/answer_text.h"

#include <doctest/doctest.h>

#include <random>

namespace grokd {
namespace {

struct Piece {
  std::string text;
  std::vector<std::string> tokens;
  bool operator==(const Piece&) const = default;
};

struct Shown {
  std::vector<Piece> pieces;
  int stop = -1;
  std::string text() const {
    std::string all;
    for (const auto& piece : pieces) all += piece.text;
    return all;
  }
  std::string token_bytes() const {
    std::string all;
    for (const auto& piece : pieces) {
      for (const auto& token : piece.tokens) all += token;
    }
    return all;
  }
};

/// Pushes the tokens one a step, as the engine does; stop strings count from token `min_tokens` on.
Shown show(const std::vector<std::string>& tokens, const std::vector<std::string>& stops,
           int min_tokens = 0) {
  AnswerText answer(stops, false);
  Shown shown;
  const auto take = [&] {
    Piece piece;
    std::vector<OutputToken> listed;
    answer.take(piece.text, listed);
    for (const auto& token : listed) piece.tokens.push_back(token.bytes);
    if (!piece.text.empty() || !piece.tokens.empty()) shown.pieces.push_back(piece);
  };
  for (std::size_t i = 0; i < tokens.size() && answer.stop() < 0; ++i) {
    answer.push({static_cast<TokenId>(i), tokens[i], 0, {}}, static_cast<int>(i) >= min_tokens);
    if (answer.stop() < 0) take();
  }
  answer.finish();
  take();
  shown.stop = answer.stop();
  return shown;
}

using Pieces = std::vector<Piece>;

TEST_CASE("a token rides on the piece that carries its last byte") {
  CHECK(show({"\xF0", "\x9F", "\x98", "\x80", "!"}, {}).pieces ==
        Pieces{{"😀", {"\xF0", "\x9F", "\x98", "\x80"}}, {"!", {"!"}}});
  CHECK(show({"a\xC3", "\xA9z"}, {}).pieces == Pieces{{"a", {}}, {"éz", {"a\xC3", "\xA9z"}}});
}

TEST_CASE("broken bytes are replaced without a stall, an unfinished character at the end") {
  CHECK(show({"\xFF", "a"}, {}).pieces == Pieces{{"\uFFFD", {"\xFF"}}, {"a", {"a"}}});
  CHECK(show({"\xF0\x9F"}, {}).pieces == Pieces{{"\uFFFD", {"\xF0\x9F"}}});
  CHECK(show({"\xF0\x9F", "a"}, {}).pieces == Pieces{{"\uFFFDa", {"\xF0\x9F", "a"}}});
}

TEST_CASE("the beginning of a stop string is never shown") {
  const auto shown = show({"ABC", "DEF", "G", "HI", "J", "more"}, {"DEFGHIJ"});
  CHECK(shown.pieces == Pieces{{"ABC", {"ABC"}}});
  CHECK(shown.stop == 0);
}

TEST_CASE("text before a stop string in the same token is shown with its token") {
  CHECK(show({"?\n"}, {"\n"}).pieces == Pieces{{"?", {"?\n"}}});
}

TEST_CASE("text that was held back for nothing comes with its tokens") {
  CHECK(show({"a", ",b", ",d"}, {"b,c"}).pieces == Pieces{{"a", {"a"}}, {",", {}}, {"b,d", {",b", ",d"}}});
  CHECK(show({"x", "y"}, {"zzzz"}).pieces == Pieces{{"x", {"x"}}, {"y", {"y"}}});
  CHECK(show({"x", "zz"}, {"zzzz"}).pieces == Pieces{{"x", {"x"}}, {"zz", {"zz"}}});
}

TEST_CASE("tokens wholly inside the cut are dropped, the straddling one stays") {
  const auto shown = show({"ab", "cS", "TO", "P"}, {"STOP"});
  CHECK(shown.pieces == Pieces{{"ab", {"ab"}}, {"c", {}}, {"", {"cS"}}});
  CHECK(shown.text() == "abc");
  CHECK(show({"STOP"}, {"STOP"}).pieces.empty());
}

TEST_CASE("a stop string may begin inside a character made of tokens only at its first byte") {
  const auto shown = show({"a", "\xF0\x9F", "\x98\x80", "b"}, {"😀"});
  CHECK(shown.pieces == Pieces{{"a", {"a"}}});
  CHECK(shown.stop == 0);
}

TEST_CASE("text of the first min_tokens tokens is not searched") {
  CHECK(show({"a.", "b", "."}, {"."}, 1).text() == "a.b");
  CHECK(show({"a", "b", "c"}, {"ab"}, 1).text() == "abc");
  CHECK(show({"a", "b", "a", "b", "c"}, {"ab"}, 1).text() == "ab");
}

TEST_CASE("among several stop strings the earliest in the text ends it") {
  const auto shown = show({"one two three"}, {"three", "two"});
  CHECK(shown.text() == "one ");
  CHECK(shown.stop == 1);
}

TEST_CASE("random answers: pieces make up the text before the first stop, tokens their bytes") {
  const char* alphabet[] = {"a", "b", "ab", "ba",  "\xC3",     "\xA9",
                            "é", "c", "",   "aab", "\xF0\x9F", "\x98\x80"};
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> tokens, stops;
    for (std::size_t i = random() % 10; i > 0; --i)
      tokens.push_back(alphabet[random() % std::size(alphabet)]);
    for (std::size_t i = random() % 3; i > 0; --i) {
      std::string stop;
      for (std::size_t k = 1 + random() % 3; k > 0; --k) stop += "abé"[random() % 2];
      stops.push_back(stop);
    }
    const auto shown = show(tokens, stops);
    // The whole text token by token, looked at after each: the definition.
    std::string expected, raw;
    int stop = -1;
    std::size_t used = 0;
    for (; used < tokens.size() && stop < 0; ++used) {
      raw += tokens[used];
      std::string text;
      Detokenizer detokenizer;
      detokenizer.push(raw, text);
      if (const auto match = StopMatcher(stops).find(text)) {
        expected = text.substr(0, match->begin);
        stop = match->stop;
      }
    }
    if (stop < 0) {
      Detokenizer detokenizer;
      detokenizer.push(raw, expected);
      detokenizer.flush(expected);
    }
    CAPTURE(round);
    REQUIRE(shown.text() == expected);
    REQUIRE(shown.stop == stop);
    if (stop < 0) REQUIRE(shown.token_bytes() == raw);
    if (stop >= 0) REQUIRE(raw.starts_with(shown.token_bytes()));
    for (std::size_t i = 0; i + 1 < shown.pieces.size(); ++i) REQUIRE_FALSE(shown.pieces[i].text.empty());
  }
}

}  // namespace
}  // namespace grokd

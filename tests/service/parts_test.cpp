// Parts of the service that need no socket.
#include <doctest/doctest.h>

#include "api/error.h"
#include "service/access.h"
#include "service/convert.h"
#include "service/request_checks.h"
#include "service/token_stream.h"
#include "tests/support/fake_tokenizer.h"

using namespace grokd;

namespace {

HttpRequest with_headers(std::vector<Header> headers, int version = 11) {
  HttpRequest request;
  request.method = "POST";
  request.target = "/v1/completions";
  request.version = version;
  request.headers = std::move(headers);
  return request;
}

constexpr std::size_t kPlenty = 1 << 30;

RequestOutput text_piece(std::string text) {
  RequestOutput piece;
  piece.text = std::move(text);
  piece.new_ids = {1};
  return piece;
}

}  // namespace

TEST_CASE("a token stream wakes its reader once for all that waits") {
  int wakes = 0;
  TokenStream stream({[&] { ++wakes; }, [] {}}, false, kPlenty);
  std::vector<Piece> pieces;
  stream.push(0, text_piece("a"));
  stream.push(1, text_piece("b"));
  CHECK(wakes == 1);
  stream.take(pieces);
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].output.text == "a");
  CHECK(pieces[1].choice == 1);
  stream.push(0, text_piece("c"));
  CHECK(wakes == 2);
}

TEST_CASE("a token stream whose reader is far behind joins pieces of a choice and loses nothing") {
  TokenStream stream({[] {}, [] {}}, true, kPlenty);
  std::string expected[2];
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = std::to_string(i) + " ";
    RequestOutput piece = text_piece(text);
    piece.tokens.push_back({i, text, 0, {}});
    piece.completion_tokens = i;
    if (i >= 9'998) piece.finish = FinishReason::length;
    expected[i % 2] += text;
    stream.push(i % 2, std::move(piece));
  }
  std::vector<Piece> pieces;
  stream.take(pieces);
  CHECK(pieces.size() < 200);
  std::string texts[2];
  std::size_t tokens = 0, ids = 0;
  for (const Piece& piece : pieces) {
    texts[piece.choice] += piece.output.text;
    tokens += piece.output.tokens.size();
    ids += piece.output.new_ids.size();
  }
  CHECK(texts[0] == expected[0]);
  CHECK(texts[1] == expected[1]);
  CHECK(tokens == 10'000);
  CHECK(ids == 10'000);
  CHECK(pieces.back().output.finish == FinishReason::length);
  CHECK(pieces.back().output.completion_tokens == 9'999);
}

TEST_CASE("a token stream says once between takes that more waits or is being written than may") {
  int complaints = 0;
  TokenStream stream({[] {}, [&] { ++complaints; }}, false, 1'000);
  std::vector<Piece> pieces;
  stream.push(0, text_piece(std::string(600, 'a')));
  CHECK(complaints == 0);
  stream.push(0, text_piece(std::string(600, 'a')));
  stream.push(0, text_piece(std::string(600, 'a')));
  CHECK(complaints == 1);
  stream.take(pieces);
  stream.push(0, text_piece("a"));  // what was taken is not written yet
  CHECK(complaints == 2);
  stream.take(pieces);
  stream.push(0, text_piece(std::string(900, 'a')));  // now only the small piece is being written
  CHECK(complaints == 2);
}

TEST_CASE("a token stream drops tokens nobody asked for") {
  TokenStream stream({[] {}, [] {}}, false, kPlenty);
  RequestOutput piece = text_piece("a");
  piece.tokens.push_back({1, "a", 0, {}});
  stream.push(0, std::move(piece));
  std::vector<Piece> pieces;
  stream.take(pieces);
  CHECK(pieces[0].output.tokens.empty());
}

TEST_CASE("a target is split, decoded and cleaned") {
  const auto parse = [](std::string target, bool good = true) {
    HttpRequest request;
    request.target = std::move(target);
    CHECK(parse_target(request) == good);
    return request;
  };
  CHECK(parse("/a//b/?x=1/2").path == "/a/b");
  CHECK(parse("/a?x=1?2").query == "x=1?2");
  CHECK(parse("/a%20b%2Fc").path == "/a b/c");
  CHECK(parse("http://host:80/a").path == "/a");
  CHECK(parse("http://host").path == "/");
  CHECK(parse("/").path == "/");
  parse("/a%2", false);
  parse("/a%zz", false);
  parse("a", false);
  parse("", false);
}

TEST_CASE("framing that two servers could read differently is refused") {
  const HttpLimits limits;
  const auto check = [&](std::vector<Header> headers, int version = 11) {
    HttpRequest request = with_headers(std::move(headers), version);
    check_framing(request, limits);
  };
  CHECK_NOTHROW(check({{"Host", "x"}, {"Content-Length", "5"}}));
  CHECK_NOTHROW(check({{"Host", "x"}, {"Transfer-Encoding", " CHUNKED "}}));
  CHECK_NOTHROW(check({}, 10));
  CHECK_THROWS_AS(check({}), api::ApiError);
  CHECK_THROWS_AS(check({{"Host", "x"}, {"Host", "y"}}), api::ApiError);
  CHECK_THROWS_AS(check({{"Host", "x"}, {"Content-Length", "5"}, {"Content-Length", "5"}}), api::ApiError);
  CHECK_THROWS_AS(check({{"Host", "x"}, {"Content-Length", "5, 5"}}), api::ApiError);
  CHECK_THROWS_AS(check({{"Host", "x"}, {"Content-Length", "99999999999999999999"}}), api::ApiError);
  CHECK_THROWS_AS(check({{"Host", "x"}, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}}),
                  api::ApiError);
  CHECK_THROWS_AS(check({{"Host", "x"}, {"Transfer-Encoding", "chunked, identity"}}), api::ApiError);
  CHECK_THROWS_AS(check({{"Transfer-Encoding", "chunked"}}, 10), api::ApiError);
}

TEST_CASE("max_tokens is what was asked for or what fits") {
  CHECK(clamp_max_tokens(10, 4, 64, "prompt") == 10);
  CHECK(clamp_max_tokens(INT64_MAX, 40, 64, "prompt") == 24);
  CHECK(clamp_max_tokens(0, 64, 64, "prompt") == 0);  // scores need no room
  CHECK_THROWS_AS(clamp_max_tokens(1, 64, 64, "prompt"), api::ApiError);
  CHECK_THROWS_AS(clamp_max_tokens(0, 65, 64, "prompt"), api::ApiError);
}

TEST_CASE("a seed is taken as two's complement, and without one it is drawn") {
  CHECK(seed_or_random(-1) == UINT64_MAX);
  CHECK(seed_or_random(0) == 0);
  CHECK(seed_or_random(std::nullopt) != seed_or_random(std::nullopt));
}

#include "api/json.h"

#include <doctest/doctest.h>

#include <string>

#include "api/json_writer.h"
#include "tests/api/refusal.h"

using namespace grokd::api;
using grokd::api::test::refusal_of;

namespace {

std::string parse_refusal(std::string_view text) {
  return refusal_of([&] { parse_json(text); });
}

std::string round_trip(std::string_view text) {
  std::string out;
  parse_json(text).append_text(out);
  return out;
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

}  // namespace

TEST_CASE("text that is not JSON is refused as invalid_json") {
  const std::string texts[] = {
      "",
      "{",
      "{\"a\":}",
      "[1,]",
      "{'a':1}",
      "tru",
      "[1] 2",
      "{} {}",
      "// x\n1",
      "NaN",
      "[NaN]",
      "[Infinity]",
      "[-Inf]",
      "01",
      "+1",
      "1.",
      ".5",
      "0x10",
      "\"a\nb\"",
      "\"\\x\"",
      "\"\xFF\"",
      "\"\xC3\"",
      "\"\xED\xA0\x80\"",
      "\"\xC0\x80\"",
      "\xFF",
      "\"\\ud800\"",
      "\"\\udc00\"",
      "\"\\ud800x\"",
      "\"\\ud800\\u0041\"",
      "1e400",
      "[-1e999]",
      std::string("{}\0", 3),
      std::string("{\"a\":1}\0{}", 10),
      std::string("[\0]", 3),
  };
  for (const std::string& text : texts) {
    CAPTURE(quote_bytes(text));
    CHECK(parse_refusal(text) == "400 invalid_json");
  }
}

TEST_CASE("a key twice in one object is refused, at any depth and written in any way") {
  CHECK(parse_refusal(R"({"a":1,"b":2,"a":3})") == "400 invalid_json");
  CHECK(parse_refusal(R"({"x":[{"a":1,"\u0061":2}]})") == "400 invalid_json");
  CHECK(parse_refusal(R"([{"a":1},{"a":2,"b":{"a":3}}])") == "accepted");
}

TEST_CASE("the message about broken JSON is plain ASCII and names the place") {
  try {
    parse_json("{\"prompt\":\"\xFF\"}");
    FAIL("accepted");
  } catch (const ApiError& error) {
    CHECK(error.message == "The body is not valid JSON: broken UTF-8 at byte 12.");
  }
}

TEST_CASE("64 levels of nesting are accepted and 65 are not, whatever follows") {
  CHECK(parse_refusal(nested(64)) == "accepted");
  CHECK(parse_refusal(nested(65)) == "400 json_too_deep");
  CHECK(parse_refusal(std::string(65, '[')) == "400 json_too_deep");
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += R"({"a":)";
  CHECK(parse_refusal(objects) == "400 json_too_deep");
}

TEST_CASE("a body of 200000 nested arrays is refused without harm") {
  const std::string body = R"({"prompt":"x","tools":)" + nested(200000) + "}";
  CHECK(test::refusal_of_completion(body) == "400 json_too_deep");
}

TEST_CASE("a body that is not an object is refused as invalid_type") {
  for (const char* body : {"[]", "1", "null", "\"x\"", "true", "[{\"prompt\":\"x\"}]"}) {
    CHECK(test::refusal_of_completion(body) == "400 invalid_type");
    CHECK(test::refusal_of_chat(body) == "400 invalid_type");
  }
}

TEST_CASE("JSON text of a value keeps members in their order and numbers in their value") {
  CHECK(round_trip(R"( {"z" : [1, -2.5, 1e3, true, null], "a" : {"\u00e9" : "\u0000\ud83d\ude00"} } )") ==
        R"({"z":[1,-2.5,1000,true,null],"a":{")"
        "\xC3\xA9"
        R"(":"\u0000)"
        "\xF0\x9F\x98\x80"
        R"("}})");
  CHECK(round_trip("[9223372036854775807,-9223372036854775808,0.1,5e-324]") ==
        "[9223372036854775807,-9223372036854775808,0.1,5e-324]");
  CHECK(round_trip("[[],{}]") == "[[],{}]");
}

TEST_CASE("5, 5.0 and 5e0 are the integer 5, and what has a fraction or passes 64 bits is no integer") {
  for (const char* text : {"5", "5.0", "5e0", "50e-1", "0.5e1"}) CHECK(parse_json(text).integer() == 5);
  CHECK(parse_json("-0.0").integer() == 0);
  CHECK(parse_json("9223372036854775807").integer() == INT64_MAX);
  CHECK(parse_json("-9223372036854775808").integer() == INT64_MIN);
  for (const char* text :
       {"5.5", "9223372036854775808", "-9223372036854775809", "1e30", "\"5\"", "true", "null"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_json(text).integer().has_value());
  }
}

TEST_CASE("a BOM before the body is skipped") { CHECK(parse_refusal("\xEF\xBB\xBF{}") == "accepted"); }

TEST_CASE("an object of many members finds each of them") {
  std::string text = "{";
  for (int i = 0; i < 5000; ++i) text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
  const JsonValue value = parse_json(text + "}");
  for (int i = 0; i < 5000; ++i) {
    const int index = value.object()->find("k" + std::to_string(i));
    REQUIRE(index == i);
  }
  CHECK(value.object()->find("k5000") == -1);
}

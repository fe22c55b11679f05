#include <doctest/doctest.h>

#include "tests/grammar/acceptance.h"

using namespace grokd;
using namespace grokd::testing;

namespace {

bool matches(const char* schema, std::string_view text) {
  ByteCompiler compiler;
  return grokd::testing::matches(compiler->compile_json_schema(schema), text);
}

struct Refusal {
  std::string message, keyword;
};
Refusal refusal(const std::string& schema) {
  ByteCompiler compiler;
  try {
    compiler->compile_json_schema(schema);
  } catch (const GrammarError& e) {
    return {e.what(), e.keyword()};
  }
  return {};
}

}  // namespace

TEST_CASE("a JSON object may hold anything") {
  ByteCompiler compiler;
  const auto object = compiler->compile_json_object();
  CHECK(matches(object, "{}"));
  CHECK(matches(object, R"({"a": [1, -2.5e+3, true, null, {"b\n": "\u00e9\ud83d\ude00"}], "a":""})"));
  CHECK(matches(object, "{ \"a\": [ 1, 2 ] }"));
  for (const char* wrong :
       {"[]", "1", "{", R"({"a"})", R"({"a":1,})", R"({a:1})", " {}", "{} ", R"({"a":01})",
        R"({"a":"\ud83d"})", R"({"a":"\x"})", "{\"a\":\"\n\"}", "{\"a\":\"\xFF\"}", "{  }", R"({"a":.5})"}) {
    CAPTURE(wrong);
    CHECK_FALSE(matches(object, wrong));
  }
}

TEST_CASE("white space is one space at most") {
  ByteCompiler compiler;
  const auto object = compiler->compile_json_object();
  CHECK(judge(object, "{ ") == Verdict::prefix);
  for (const char* idle : {"{  ", "{\n", "{\t", "{\r", " ", "\n", "{} "}) {
    CAPTURE(idle);
    CHECK(judge(object, idle) == Verdict::refused);
  }
}

TEST_CASE("types are told apart, alone and in lists") {
  CHECK(matches(R"({"type":"null"})", "null"));
  CHECK(matches(R"({"type":"boolean"})", "false"));
  CHECK(matches(R"({"type":"integer"})", "-120"));
  CHECK_FALSE(matches(R"({"type":"integer"})", "1.5"));
  CHECK(matches(R"({"type":"number"})", "1.5e-9"));
  CHECK(matches(R"({"type":"string"})", R"("x")"));
  CHECK(matches(R"({"type":"array"})", R"([1,"x"])"));
  CHECK(matches(R"({"type":"object"})", R"({"x":1})"));
  CHECK(matches(R"({"type":["string","null"]})", "null"));
  CHECK_FALSE(matches(R"({"type":["string","null"]})", "1"));
  CHECK(matches(R"({"type":"string","nullable":true})", "null"));
  CHECK_FALSE(matches(R"({"type":"string","nullable":false})", "null"));
  CHECK(matches("true", "[1]"));
  CHECK(matches(R"({"title":"t","description":"d","default":1})", "[1]"));
}

TEST_CASE("properties come in order, and only required ones must be there") {
  const char* schema = R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"},
                           "c":{"type":"null"}},"required":["a"]})";
  CHECK(matches(schema, R"({"b":1,"a":"","c":null})"));
  CHECK(matches(schema, R"({"a":""})"));
  CHECK(matches(schema, R"({ "b": 1, "a": "" })"));
  CHECK_FALSE(matches(schema, R"({"a":"","b":1})"));
  CHECK_FALSE(matches(schema, R"({"b":1})"));
  CHECK_FALSE(matches(schema, R"({"a":"","d":1})"));
  CHECK_FALSE(matches(schema, R"({,"a":""})"));
  CHECK_FALSE(matches(schema, "{}"));
}

TEST_CASE("additional properties follow, under other names") {
  const char* open =
      R"({"properties":{"ab":{"type":"integer"},"é":{}},"additionalProperties":{"type":"boolean"}})";
  CHECK(matches(open, R"({"ab":1,"x":true,"y":false})"));
  CHECK(matches(open, R"({"abc":true,"a":true,"":false})"));
  CHECK(matches(open, "{}"));
  CHECK_FALSE(matches(open, R"({"ab":true})"));
  CHECK_FALSE(matches(open, R"({"x":true,"ab":1})"));
  CHECK_FALSE(matches(open, R"({"x":1})"));
  CHECK_FALSE(matches(open, "{\"x\":true,\"\xC3\xA9\":true}"));
  CHECK(matches(open, "{\"\xC3\xA8\":true}"));
  CHECK_FALSE(matches(R"({"properties":{"a":{}}})", R"({"b":1})"));
  CHECK(matches(R"({"properties":{"a":{}},"additionalProperties":true})", R"({"b":[1]})"));
  CHECK_FALSE(matches(R"({"type":"object","additionalProperties":false})", R"({"b":1})"));
}

TEST_CASE("lengths count code points, items and nothing else") {
  const char* schema = R"({"type":"string","minLength":2,"maxLength":3})";
  CHECK_FALSE(matches(schema, R"("a")"));
  CHECK(matches(schema, R"("ab")"));
  CHECK(matches(schema, "\"\xC3\xA9\\n\xF0\x9F\x98\x80\""));
  CHECK(matches(schema, R"("\ud83d\ude00\u0041")"));
  CHECK_FALSE(matches(schema, R"("abcd")"));
  const char* array = R"({"items":{"type":"integer"},"minItems":1,"maxItems":2})";
  CHECK_FALSE(matches(array, "[]"));
  CHECK(matches(array, "[1]"));
  CHECK(matches(array, "[ 1, 2 ]"));
  CHECK_FALSE(matches(array, "[1,2,3]"));
  CHECK(matches(R"({"type":"array","maxItems":0})", "[]"));
  CHECK_FALSE(matches(R"({"type":"array","maxItems":0})", "[1]"));
  CHECK(matches(R"({"type":"array","items":false})", "[]"));
}

TEST_CASE("integers keep their bounds") {
  const char* schema = R"({"type":"integer","minimum":-3,"exclusiveMaximum":12})";
  for (const char* inside : {"-3", "0", "9", "11"}) CHECK(matches(schema, inside));
  for (const char* outside : {"-4", "12", "-0", "100", "01"}) CHECK_FALSE(matches(schema, outside));
  CHECK(matches(R"({"minimum":2.5})", "3"));
  CHECK_FALSE(matches(R"({"minimum":2.5})", "2"));
}

TEST_CASE("enum and const take any JSON value, and the type picks among them") {
  const char* schema = R"({"enum":["a\"é",1,null,{"x":[1,2]}]})";
  CHECK(matches(schema, "\"a\\\"\xC3\xA9\""));
  CHECK(matches(schema, R"({"x":[1,2]})"));
  CHECK(matches(schema, "null"));
  CHECK_FALSE(matches(schema, "2"));
  CHECK(matches(R"({"const":[true]})", "[true]"));
  CHECK_FALSE(matches(R"({"type":"string","enum":["a",1]})", "1"));
  CHECK(matches(R"({"type":"integer","enum":["a",1]})", "1"));
}

TEST_CASE("anyOf and references combine schemas, references recursively") {
  CHECK(matches(R"({"anyOf":[{"type":"null"},{"type":"integer"}]})", "7"));
  const char* list = R"({"$ref":"#/$defs/list","$defs":{"list":{"type":"object","properties":{
      "value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/list"},{"type":"null"}]}},"required":["value","next"]}}})";
  CHECK(matches(list, R"({"value":1,"next":{"value":2,"next":null}})"));
  CHECK_FALSE(matches(list, R"({"value":1,"next":{"value":2}})"));
  const char* tree = R"({"properties":{"kids":{"type":"array","items":{"$ref":"#"}}}})";
  CHECK(matches(tree, R"({"kids":[{},{"kids":[{}]}]})"));
}

TEST_CASE("a keyword that is not supported is named") {
  const Refusal pattern = refusal(R"({"properties":{"a":{"type":"string","pattern":"x"}}})");
  CHECK(pattern.keyword == "pattern");
  CHECK(pattern.message == "schema keyword 'pattern' at '#/properties/a' is not supported");
  for (const char* keyword :
       {"oneOf", "allOf", "not", "format", "multipleOf", "uniqueItems", "prefixItems", "x-mine"}) {
    CHECK(refusal(std::string(R"({")") + keyword + R"(":1})").keyword == keyword);
  }
  CHECK(refusal(R"({"type":"number","minimum":1})").keyword == "minimum");
  CHECK(refusal(R"({"anyOf":[true],"minItems":1})").keyword == "minItems");
  CHECK(refusal(R"({"enum":["a"],"maxLength":1})").keyword == "maxLength");
}

TEST_CASE("a schema with a wrong value is refused by keyword") {
  CHECK(refusal(R"({"type":"float"})").keyword == "type");
  CHECK(refusal(R"({"type":[]})").keyword == "type");
  CHECK(refusal(R"({"properties":[]})").keyword == "properties");
  CHECK(refusal(R"({"properties":{},"required":["a"]})").keyword == "required");
  CHECK(refusal(R"({"type":"string","minLength":-1})").keyword == "minLength");
  CHECK(refusal(R"({"type":"string","maxLength":10001})").keyword == "maxLength");
  CHECK(refusal(R"({"type":"integer","minimum":1e30})").keyword == "minimum");
  CHECK(refusal(R"({"$ref":"#/$defs/a"})").keyword == "$ref");
  CHECK(refusal(R"({"$ref":"other.json"})").keyword == "$ref");
  CHECK(refusal(R"({"enum":1})").keyword == "enum");
  CHECK(refusal("{").message == "the schema is not valid JSON");
  CHECK(refusal("1").message == "the schema at '#' is no object and no boolean");
}

TEST_CASE("a schema that nothing fits is refused") {
  for (const char* schema : {"false", R"({"enum":[]})", R"({"type":"string","minLength":2,"maxLength":1})",
                             R"({"properties":{"a":false},"required":["a"]})",
                             R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"}) {
    CHECK(refusal(schema).message == "no text that the vocabulary can spell matches");
  }
  CHECK(refusal(R"({"$ref":"#"})").message == "no text that the vocabulary can spell matches");
  CHECK(refusal(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})").message.find("left-recursive") !=
        std::string::npos);
}

TEST_CASE("schemas nested 50 deep are read, 5000 deep refused") {
  const auto nested = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += R"({"type":"object","properties":{"a":)";
    text += R"({"type":"null"})";
    for (int i = 0; i < n; ++i) text += "}}";
    return text;
  };
  CHECK(refusal(nested(50)).message.empty());
  CHECK(refusal(nested(5000)).message == "longer than 65536 bytes");
  CHECK(refusal(nested(1000)).message == "the schema is nested too deep");
  CHECK(refusal(nested(80)).message == "the schema is nested deeper than 64 levels");
  CHECK(refusal(std::string(60000, '[')).message == "the schema is nested too deep");
}

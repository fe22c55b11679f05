#include "api/json_writer.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "api/utf8.h"

using namespace grokd::api;

namespace {

std::string string_json(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

std::string logprob_json(float value) {
  std::string out;
  append_logprob(out, value);
  return out;
}

}  // namespace

TEST_CASE("strings are escaped as JSON demands and nothing else is") {
  CHECK(string_json("a\"b\\c/d") == R"("a\"b\\c/d")");
  CHECK(string_json("\b\f\n\r\t") == R"("\b\f\n\r\t")");
  CHECK(string_json(std::string("\0\x01\x1F\x7F", 4)) == "\"\\u0000\\u0001\\u001f\x7F\"");
  CHECK(string_json("\xC3\xA9\xE2\x96\x81\xF0\x9F\x98\x80") == "\"\xC3\xA9\xE2\x96\x81\xF0\x9F\x98\x80\"");
}

TEST_CASE("a written string is valid UTF-8 and reads back, whatever the bytes") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; second += 5) {
      const std::string bytes = {'x', static_cast<char>(first), static_cast<char>(second)};
      CHECK(nlohmann::json::parse(string_json(bytes)) == replace_broken_utf8(bytes));
    }
  }
}

TEST_CASE("log-probabilities read back to the same bits") {
  std::uint32_t bits = 1;
  for (int i = 0; i < 100000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    const float value = -std::fabs(std::bit_cast<float>(bits));
    if (!(value >= -9999.0f)) continue;
    const float back = static_cast<float>(nlohmann::json::parse(logprob_json(value)).get<double>());
    REQUIRE(std::bit_cast<std::uint32_t>(back) == std::bit_cast<std::uint32_t>(value));
  }
}

TEST_CASE("log-probabilities are finite decimals, at least -9999.0") {
  CHECK(logprob_json(-0.5f) == "-0.5");
  CHECK(logprob_json(-3.0f) == "-3.0");
  CHECK(logprob_json(0.0f) == "0.0");
  CHECK(logprob_json(-1e-7f) == "-1e-07");
  CHECK(logprob_json(-9999.0f) == "-9999.0");
  CHECK(logprob_json(-10000.0f) == "-9999.0");
  CHECK(logprob_json(-std::numeric_limits<float>::infinity()) == "-9999.0");
  CHECK(logprob_json(std::numeric_limits<float>::quiet_NaN()) == "-9999.0");
}

TEST_CASE("bytes and ids are arrays of integers") {
  std::string out;
  append_bytes(out, "\xF0\x9F!");
  append_integers(out, std::vector<std::int32_t>{1, -2, 131071});
  append_integers(out, {});
  CHECK(out == "[240,159,33][1,-2,131071][]");
}

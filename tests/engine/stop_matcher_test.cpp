#include "engine/stop_matcher.h"

#include <doctest/doctest.h>

#include <vector>

namespace grokd {
namespace {

using Stops = std::vector<std::string>;

std::pair<std::size_t, int> found(const Stops& stops, std::string_view text) {
  const auto match = StopMatcher(stops).find(text);
  return match ? std::pair{match->begin, match->stop} : std::pair{text.npos, -1};
}

TEST_CASE("the earliest start wins, then the longest string") {
  CHECK(found({"b", "abc"}, "xabcb") == std::pair{std::size_t{1}, 1});
  CHECK(found({"ab", "abc", "a"}, "xabc") == std::pair{std::size_t{1}, 1});
  CHECK(found({"abc", "ab"}, "xab") == std::pair{std::size_t{1}, 1});
  CHECK(found({"q"}, "xabc").second == -1);
  CHECK(found({}, "xabc").second == -1);
}

TEST_CASE("the longest tail that begins a string is held back") {
  CHECK(StopMatcher(Stops{"DEFGHIJ"}).held("ABCDEFG") == 4);
  CHECK(StopMatcher(Stops{"DEFGHIJ"}).held("ABC") == 0);
  CHECK(StopMatcher(Stops{"aab"}).held("aaa") == 2);
  CHECK(StopMatcher(Stops{"\n\nHuman:", "\n"}).held("x\n\nHu") == 4);
  CHECK(StopMatcher(Stops{"abcx", "cy"}).held("zabc") == 3);
  CHECK(StopMatcher(Stops{"a"}).held("a") == 0);
  CHECK(StopMatcher(Stops{"ab"}).held("") == 0);
}

}  // namespace
}  // namespace grokd

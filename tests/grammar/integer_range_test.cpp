#include "engine/grammar/integer_range.h"

#include <random>

#include <doctest/doctest.h>

#include "engine/grammar/stack_automaton.h"

using namespace grokd::grammar;

namespace {

class Range {
 public:
  Range(std::int64_t min, std::int64_t max) : rules_(compile(min, max)), automaton_(rules_) {}
  bool contains(std::int64_t value) {
    ConfigId config = automaton_.start();
    for (const char c : std::to_string(value)) config = automaton_.step(config, static_cast<std::uint8_t>(c));
    return automaton_.may_end(config);
  }

 private:
  static RuleAutomata compile(std::int64_t min, std::int64_t max) {
    Grammar grammar;
    const RuleId root = grammar.declare("root");
    grammar.define(root, integer_in_range(grammar, min, max));
    return compile_rules(grammar, std::bitset<256>().set());
  }
  RuleAutomata rules_;
  StackAutomaton automaton_;
};

}  // namespace

TEST_CASE("a range of integers holds exactly the integers between its bounds") {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::uniform_int_distribution<int> bound(-(1 << (i % 12)), 1 << (i % 12));
    int min = bound(random), max = bound(random);
    if (min > max) std::swap(min, max);
    Range range(min, max);
    for (int value = -5000; value <= 5000; ++value) {
      if (range.contains(value) != (min <= value && value <= max)) {
        FAIL("[", min, ", ", max, "] and ", value);
      }
    }
  }
}

TEST_CASE("a range of integers may span all lengths") {
  Range range(-kMaxInteger, kMaxInteger);
  for (const std::int64_t value :
       {-kMaxInteger, std::int64_t{-10}, std::int64_t{0}, std::int64_t{99}, kMaxInteger}) {
    CHECK(range.contains(value));
  }
  CHECK_FALSE(range.contains(kMaxInteger + 1));
  CHECK_FALSE(Range(95, kMaxInteger - 1).contains(kMaxInteger));
  CHECK(Range(95, kMaxInteger - 1).contains(95));
  CHECK_FALSE(Range(95, kMaxInteger - 1).contains(94));
}

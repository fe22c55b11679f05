#pragma once
// Random grammars as text, each with its language. They recurse, have empty parts and are often ambiguous.

#include <random>
#include <string>
#include <vector>

#include "tests/grammar/reference_language.h"

namespace grokd::testing {

struct RandomGrammar {
  std::string text;
  Term term;
};

class GrammarGenerator {
 public:
  GrammarGenerator(Language& language, unsigned seed) : l_(language), random_(seed) {}

  RandomGrammar grammar() {
    for (int i = 0; i < 4; ++i) rules_.push_back(l_.declare());
    std::string text;
    for (int i = 0; i < 4; ++i) {
      const Part finite = literal(), open = choice(3, false);
      text += name(i) + " ::= " + finite.text + " | " + open.text + "\n";
      l_.define(rules_[i], l_.any({finite.term, open.term}));
    }
    return {text, rules_[0]};
  }

 private:
  struct Part {
    std::string text;
    Term term;
  };

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  static std::string name(int rule) { return rule == 0 ? "root" : "r" + std::to_string(rule); }

  Part literal() {
    const std::vector<std::string> words = {"a", "ab", "abc", "x", "1", "12", "\xC3\xA9", "[", "]", "{}"};
    const std::string& word = words[pick(static_cast<int>(words.size()))];
    return {"\"" + word + "\"", l_.text(word)};
  }

  Part set() {
    switch (pick(3)) {
      case 0:
        return {"[a-cx]", l_.any({l_.bytes('a', 'c'), l_.text("x")})};
      case 1:
        return {"[0-9]", l_.bytes('0', '9')};
      default:
        return {"[\xC3\xA0-\xC3\xBF]", l_.then(l_.bytes(0xC3, 0xC3), l_.bytes(0xA0, 0xBF))};
    }
  }

  Part choice(int depth, bool may_call) {
    const Part a = sequence(depth - 1, may_call), b = sequence(depth - 1, may_call);
    if (pick(3) == 0) return a;
    return {a.text + " | " + b.text, l_.any({a.term, b.term})};
  }

  /// Calls are only made after a byte has been read, so that there is no left recursion.
  Part sequence(int depth, bool may_call) {
    Part all{"", Language::kEmpty};
    for (int i = pick(3); i >= 0; --i) {
      const bool reads = pick(2) == 0;
      const Part part = reads ? (pick(2) == 0 ? literal() : set()) : repeated(depth, may_call);
      may_call = may_call || reads;
      all = {all.text + " " + part.text, l_.then(all.term, part.term)};
    }
    return all;
  }

  Part repeated(int depth, bool may_call) {
    const Part body = atom(depth, may_call);
    switch (pick(6)) {
      case 0:
        return {body.text + "*", l_.repeat(body.term, 0, Language::kEndless)};
      case 1:
        return {body.text + "+", l_.repeat(body.term, 1, Language::kEndless)};
      case 2:
        return {body.text + "?", l_.optional(body.term)};
      case 3:
        return {body.text + "{1,3}", l_.repeat(body.term, 1, 3)};
      default:
        return body;
    }
  }

  Part atom(int depth, bool may_call) {
    if (may_call && pick(2) == 0) {
      const int rule = pick(static_cast<int>(rules_.size()));
      return {name(rule), rules_[rule]};
    }
    if (depth <= 0) return set();
    const Part inner = choice(depth, may_call);
    return {"(" + inner.text + ")", inner.term};
  }

  Language& l_;
  std::mt19937 random_;
  std::vector<Term> rules_;
};

}  // namespace grokd::testing

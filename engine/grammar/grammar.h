#pragma once
// The one form of grammar that regular expressions, grammar texts and JSON schemas are all translated to:
// named rules over expressions. Expressions live in an arena and refer to each other by index, so there is no
// tree to destroy recursively.

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/grammar/char_set.h"

namespace grokd::grammar {

inline constexpr std::size_t kMaxTextBytes = 64 * 1024;  // of a schema, grammar or regular expression
inline constexpr int kMaxDepth = 64;                     // nesting of groups or schemas
inline constexpr int kMaxRepeat = 10'000;                // counts in {m,n}, maxLength, maxItems
inline constexpr int kMaxStates = 100'000;               // of all rules together
inline constexpr int kUnbounded = -1;

/// The client's grammar, schema or expression cannot be used; what() says why, in one line.
class GrammarError : public std::runtime_error {
 public:
  explicit GrammarError(const std::string& message, std::string keyword = "")
      : std::runtime_error(message), keyword_(std::move(keyword)) {}
  /// The schema keyword at fault; empty if it is not about one.
  const std::string& keyword() const { return keyword_; }

 private:
  std::string keyword_;
};

using ExprId = int;
using RuleId = int;

struct Literal {
  std::string bytes;
};
/// One character of the set.
struct Characters {
  CharSet set;
};
struct Sequence {
  std::vector<ExprId> parts;
};
struct Choice {
  std::vector<ExprId> options;
};
struct Repeat {
  ExprId body = 0;
  int min = 0, max = kUnbounded;
};
/// Items in this order with a separator between those present; items that are not required may be left out.
/// The trailer follows if any is present.
struct OrderedList {
  struct Item {
    ExprId expr = 0;
    bool required = true;
  };
  std::vector<Item> items;
  ExprId separator = 0, trailer = 0;
};
/// Any string over `set`, the empty one included, that is not one of `words`.
struct OtherWord {
  CharSet set;
  std::vector<std::u32string> words;
};
struct Call {
  RuleId rule = 0;
};
using Expr = std::variant<Literal, Characters, Sequence, Choice, Repeat, OrderedList, OtherWord, Call>;

class Grammar {
 public:
  ExprId literal(std::string_view bytes) { return add(Literal{std::string(bytes)}, bytes.size()); }
  ExprId characters(CharSet set);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> options);
  ExprId repeat(ExprId body, int min, int max);
  ExprId optional(ExprId body) { return repeat(body, 0, 1); }
  ExprId ordered_list(std::vector<OrderedList::Item> items, ExprId separator, ExprId trailer);
  ExprId other_word(CharSet set, std::vector<std::u32string> words);
  ExprId call(RuleId rule) { return add(Call{rule}, 1); }

  /// A rule may be called before it is defined. The first one declared is the root.
  RuleId declare(std::string name);
  void define(RuleId rule, ExprId body) { rules_[rule].body = body; }
  RuleId rule(std::string name, ExprId body);

  int num_rules() const { return static_cast<int>(rules_.size()); }
  const std::string& name(RuleId rule) const { return rules_[rule].name; }
  ExprId body(RuleId rule) const { return rules_[rule].body; }
  const Expr& operator[](ExprId id) const { return exprs_[id].expr; }
  /// True for a repetition too large to be written out: its body becomes a rule of its own.
  bool is_large_repeat(ExprId id) const { return exprs_[id].large_repeat; }

 private:
  struct Entry {
    Expr expr;
    std::int64_t weight = 0;  // about how many states it takes, at most kMaxStates + 1
    bool large_repeat = false;
  };
  struct Rule {
    std::string name;
    ExprId body = -1;
  };
  ExprId add(Expr expr, std::int64_t weight);
  std::int64_t total_weight(const std::vector<ExprId>& ids) const;

  std::vector<Entry> exprs_;
  std::vector<Rule> rules_;
};

}  // namespace grokd::grammar

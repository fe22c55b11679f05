#include "engine/grammar/json_grammar.h"

#include <algorithm>

namespace grokd::grammar {
namespace {

constexpr int kMaxDigits = 18;  // before and after the point: bounded, or a weak model writes them for ever
constexpr int kMaxExponentDigits = 2;  // what every reader of doubles can hold

const CharSet kDigit = {{U'0', U'9'}};
const CharSet kDigitFrom1 = {{U'1', U'9'}};
const CharSet kHex = {{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}};
const CharSet kUnescaped = normalized({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}});

}  // namespace

JsonGrammar::JsonGrammar(Grammar& grammar) : grammar_(grammar) {
  Grammar& g = grammar_;
  gap_ = g.rule("white space", g.optional(g.literal(" ")));  // with more a weak model would idle in it
  string_ = g.rule("string", string(0, kUnbounded));
  const ExprId fraction = g.sequence({g.literal("."), g.repeat(g.characters(kDigit), 1, kMaxDigits)});
  const ExprId exponent = g.sequence({g.characters({{U'E', U'E'}, {U'e', U'e'}}),
                                      g.optional(g.characters({{U'+', U'+'}, {U'-', U'-'}})),
                                      g.repeat(g.characters(kDigit), 1, kMaxExponentDigits)});
  number_ = g.rule("number", g.sequence({integer(), g.optional(fraction), g.optional(exponent)}));
  value_ = g.declare("value");
  g.define(value_, g.choice({}));
}

ExprId JsonGrammar::any_value() {
  if (!value_is_defined_) {
    value_is_defined_ = true;
    Grammar& g = grammar_;
    g.define(value_, g.choice({g.literal("null"), g.literal("true"), g.literal("false"), g.call(string_),
                               number(), any_array(), any_object()}));
  }
  return grammar_.call(value_);
}

ExprId JsonGrammar::any_object() { return object({}, any_key(), any_value()); }
ExprId JsonGrammar::any_array() { return array(any_value(), 0, kUnbounded); }
ExprId JsonGrammar::number() { return grammar_.call(number_); }

ExprId JsonGrammar::integer() {
  Grammar& g = grammar_;
  const ExprId digits =
      g.sequence({g.characters(kDigitFrom1), g.repeat(g.characters(kDigit), 0, kMaxDigits - 1)});
  return g.sequence({g.optional(g.literal("-")), g.choice({g.literal("0"), digits})});
}

ExprId JsonGrammar::string(int min_characters, int max_characters) {
  Grammar& g = grammar_;
  return g.sequence(
      {g.literal("\""), g.repeat(string_character(), min_characters, max_characters), g.literal("\"")});
}

/// One code point: itself, an escape, or the escapes of a surrogate pair. A lone surrogate is no character.
ExprId JsonGrammar::string_character() {
  Grammar& g = grammar_;
  const ExprId hex = g.characters(kHex);
  const ExprId d = g.characters({{U'D', U'D'}, {U'd', U'd'}});
  const auto u = [&](ExprId first, ExprId second) {
    return g.sequence({g.literal("u"), first, second, hex, hex});
  };
  const ExprId not_d = g.characters({{U'0', U'9'}, {U'A', U'C'}, {U'E', U'F'}, {U'a', U'c'}, {U'e', U'f'}});
  const ExprId below_surrogates = g.characters({{U'0', U'7'}});
  const ExprId high = g.characters({{U'8', U'9'}, {U'A', U'B'}, {U'a', U'b'}});
  const ExprId low = g.characters({{U'C', U'F'}, {U'c', U'f'}});
  const ExprId simple = g.characters(normalized({{U'"', U'"'},
                                                 {U'\\', U'\\'},
                                                 {U'/', U'/'},
                                                 {U'b', U'b'},
                                                 {U'f', U'f'},
                                                 {U'n', U'n'},
                                                 {U'r', U'r'},
                                                 {U't', U't'}}));
  const ExprId pair = g.sequence({u(d, high), g.literal("\\"), u(d, low)});
  const ExprId escape = g.choice({simple, u(not_d, hex), u(d, below_surrogates), pair});
  return g.choice({g.characters(kUnescaped), g.sequence({g.literal("\\"), escape})});
}

ExprId JsonGrammar::other_key(const std::vector<std::u32string>& others) {
  return grammar_.sequence(
      {grammar_.literal("\""), grammar_.other_word(kUnescaped, others), grammar_.literal("\"")});
}

ExprId JsonGrammar::comma() { return grammar_.sequence({grammar_.literal(","), gap()}); }

ExprId JsonGrammar::array(ExprId item, int min_items, int max_items) {
  Grammar& g = grammar_;
  ExprId items = g.sequence({});
  if (max_items != 0) {
    const int max_more = max_items == kUnbounded ? kUnbounded : max_items - 1;
    const ExprId more = g.repeat(g.sequence({comma(), item}), std::max(min_items - 1, 0), max_more);
    items = g.sequence({item, more, gap()});
    if (min_items == 0) items = g.optional(items);
  }
  return g.sequence({g.literal("["), gap(), items, g.literal("]")});
}

ExprId JsonGrammar::pair(ExprId key, ExprId value) {
  return grammar_.sequence({key, grammar_.literal(":"), gap(), value});
}

ExprId JsonGrammar::object(const std::vector<Property>& properties) { return object_of(pairs(properties)); }

ExprId JsonGrammar::object(const std::vector<Property>& properties, ExprId other_key, ExprId other_value) {
  Grammar& g = grammar_;
  std::vector<OrderedList::Item> items = pairs(properties);
  const ExprId other = pair(other_key, other_value);
  const ExprId others = g.sequence({other, g.repeat(g.sequence({comma(), other}), 0, kUnbounded)});
  items.push_back({others, false});
  return object_of(std::move(items));
}

std::vector<OrderedList::Item> JsonGrammar::pairs(const std::vector<Property>& properties) {
  std::vector<OrderedList::Item> items;
  for (const Property& p : properties) items.push_back({pair(grammar_.literal(p.key), p.value), p.required});
  return items;
}

ExprId JsonGrammar::object_of(std::vector<OrderedList::Item> items) {
  Grammar& g = grammar_;
  const ExprId list = g.ordered_list(std::move(items), comma(), gap());
  return g.sequence({g.literal("{"), gap(), list, g.literal("}")});
}

}  // namespace grokd::grammar

#pragma once
// The parts of JSON text. All limits on white space and digits are here: docs/constrained-output.md states
// them.

#include <string>
#include <vector>

#include "engine/grammar/grammar.h"

namespace grokd::grammar {

class JsonGrammar {
 public:
  /// Adds to `grammar`, whose root must have been declared already.
  explicit JsonGrammar(Grammar& grammar);

  struct Property {
    std::string key;  // as JSON text, with its quotes
    ExprId value = 0;
    bool required = false;
  };

  /// What may stand between two parts: nothing, one space, or a line end and its indentation.
  ExprId gap() { return grammar_.call(gap_); }
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  ExprId number();
  ExprId integer();
  ExprId string(int min_characters, int max_characters);  // kUnbounded: no maximum
  ExprId any_key() { return grammar_.call(string_); }
  /// A key none of `others` can be: those are compared with it as they are, so it has no escapes.
  ExprId other_key(const std::vector<std::u32string>& others);
  ExprId array(ExprId item, int min_items, int max_items);
  /// The properties in this order, then any number of further ones.
  ExprId object(const std::vector<Property>& properties);
  ExprId object(const std::vector<Property>& properties, ExprId other_key, ExprId other_value);

 private:
  ExprId string_character();
  ExprId comma();
  ExprId pair(ExprId key, ExprId value);
  std::vector<OrderedList::Item> pairs(const std::vector<Property>& properties);
  ExprId object_of(std::vector<OrderedList::Item> items);

  Grammar& grammar_;
  RuleId gap_, value_, string_, number_;  // value_ is only defined once it is used
  bool value_is_defined_ = false;
};

}  // namespace grokd::grammar

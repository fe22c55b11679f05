#pragma once
// Random JSON schemas, each with the language of its texts as docs/constrained-output.md states it.

#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/grammar/reference_language.h"

namespace grokd::testing {

/// The parts of JSON text, written down from the document once more.
class JsonLanguage {
 public:
  explicit JsonLanguage(Language& language) : l_(language) {
    const Term digit = l_.bytes('0', '9');
    gap_ = l_.any({Language::kEmpty, l_.text(" ")});
    plain_ = plain_character();
    character_ = l_.any({plain_, l_.then(l_.text("\\"), escape())});
    const Term sign = l_.optional(l_.any({l_.text("+"), l_.text("-")}));
    integer_ = l_.then(l_.optional(l_.text("-")),
                       l_.any({l_.text("0"), l_.then(l_.bytes('1', '9'), l_.repeat(digit, 0, 17))}));
    number_ =
        l_.all({integer_, l_.optional(l_.then(l_.text("."), l_.repeat(digit, 1, 18))),
                l_.optional(l_.all({l_.any({l_.text("e"), l_.text("E")}), sign, l_.repeat(digit, 1, 2)}))});
    value_ = l_.declare();
    l_.define(value_, l_.any({l_.text("null"), l_.text("true"), l_.text("false"), number_,
                              string(0, Language::kEndless), array(value_, 0, Language::kEndless),
                              object({}, string(0, Language::kEndless), value_)}));
  }

  struct Property {
    std::string name;
    Term value;
    bool required;
  };

  Term integer() const { return integer_; }
  Term number() const { return number_; }
  Term value() const { return value_; }
  Term string(int min, int max) { return quoted(l_.repeat(character_, min, max)); }
  Term string_key() { return string(0, Language::kEndless); }
  Term key_except(const std::set<std::string>& names) {
    return quoted(l_.except(l_.repeat(plain_, 0, Language::kEndless), names));
  }
  Term array(Term item, int min, int max) {
    const Term more = l_.all({l_.text(","), gap_, item});
    std::vector<Term> bodies;
    if (min == 0) bodies.push_back(Language::kEmpty);
    if (max != 0) {
      const int rest = max == Language::kEndless ? max : max - 1;
      bodies.push_back(l_.all({item, l_.repeat(more, std::max(min - 1, 0), rest), gap_}));
    }
    return l_.all({l_.text("["), gap_, l_.any(bodies), l_.text("]")});
  }
  /// `other_key` nothing: no further properties.
  Term object(const std::vector<Property>& properties, Term other_key, Term other_value) {
    const Term others = l_.all({other_key, l_.text(":"), gap_, other_value});
    const Term more_others = l_.repeat(l_.all({l_.text(","), gap_, others}), 0, Language::kEndless);
    // From the last property to the first: what may follow with and without an earlier one present.
    Term after_some = l_.then(more_others, gap_);
    Term after_none = l_.any({Language::kEmpty, l_.all({others, more_others, gap_})});
    for (auto p = properties.rbegin(); p != properties.rend(); ++p) {
      const Term pair = l_.all({l_.text(nlohmann::json(p->name).dump() + ":"), gap_, p->value});
      const Term first = l_.then(pair, after_some);
      const Term next = l_.all({l_.text(","), gap_, pair, after_some});
      after_none = p->required ? first : l_.any({first, after_none});
      after_some = p->required ? next : l_.any({next, after_some});
    }
    return l_.all({l_.text("{"), gap_, after_none, l_.text("}")});
  }

 private:
  Term quoted(Term inside) { return l_.all({l_.text("\""), inside, l_.text("\"")}); }

  /// The table of well-formed UTF-8 of the Unicode standard, less what JSON wants escaped.
  Term plain_character() {
    std::bitset<256> ascii;
    for (int c = 0x20; c < 0x80; ++c) ascii.set(c, c != '"' && c != '\\');
    const Term tail = l_.bytes(0x80, 0xBF);
    return l_.any({l_.bytes(ascii), l_.all({l_.bytes(0xC2, 0xDF), tail}),
                   l_.all({l_.bytes(0xE0, 0xE0), l_.bytes(0xA0, 0xBF), tail}),
                   l_.all({l_.bytes(0xE1, 0xEC), tail, tail}),
                   l_.all({l_.bytes(0xED, 0xED), l_.bytes(0x80, 0x9F), tail}),
                   l_.all({l_.bytes(0xEE, 0xEF), tail, tail}),
                   l_.all({l_.bytes(0xF0, 0xF0), l_.bytes(0x90, 0xBF), tail, tail}),
                   l_.all({l_.bytes(0xF1, 0xF3), tail, tail, tail}),
                   l_.all({l_.bytes(0xF4, 0xF4), l_.bytes(0x80, 0x8F), tail, tail})});
  }
  Term of(const std::string& characters) {
    std::bitset<256> set;
    for (const char c : characters) set.set(static_cast<unsigned char>(c));
    return l_.bytes(set);
  }
  Term escape() {
    const Term hex = of("0123456789abcdefABCDEF");
    const Term high = l_.all({l_.text("u"), of("dD"), of("89abAB"), hex, hex});
    const Term low = l_.all({l_.text("u"), of("dD"), of("cdefCDEF"), hex, hex});
    return l_.any({of("\"\\/bfnrt"), l_.all({l_.text("u"), of("0123456789abcefABCEF"), hex, hex, hex}),
                   l_.all({l_.text("u"), of("dD"), of("01234567"), hex, hex}),
                   l_.all({high, l_.text("\\"), low})});
  }

  Language& l_;
  Term gap_, plain_, character_, integer_, number_, value_;
};

struct RandomSchema {
  nlohmann::ordered_json json;
  Term term;
};

class SchemaGenerator {
 public:
  SchemaGenerator(Language& language, unsigned seed) : l_(language), j_(language), random_(seed) {}

  /// One schema; some have definitions, which may refer to each other.
  RandomSchema root() {
    Json definitions = Json::object();
    if (chance(4)) {
      for (const char* name : {"first", "second"}) definition_terms_.emplace_back(name, l_.declare());
      for (const auto& [name, term] : definition_terms_) {
        // A definition is an object of optional parts, so that it always has a finite text.
        const RandomSchema definition = object(2, false);
        l_.define(term, definition.term);
        definitions[name] = definition.json;
      }
    }
    RandomSchema schema = any(3);
    if (!definition_terms_.empty() && schema.json.is_object()) schema.json["$defs"] = definitions;
    return schema;
  }

 private:
  using Json = nlohmann::ordered_json;

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int one_in) { return pick(one_in) == 0; }

  RandomSchema any(int depth) {
    RandomSchema s = depth == 0 ? leaf() : nested(depth);
    if (s.json.is_object() && chance(12)) {
      s.json["nullable"] = true;
      s.term = l_.any({s.term, l_.text("null")});
    }
    if (s.json.is_object() && chance(8)) s.json["description"] = "says nothing";
    return s;
  }

  RandomSchema nested(int depth) {
    switch (pick(6)) {
      case 0:
        return array(depth);
      case 1:
      case 2:
        return object(depth, true);
      case 3:
        return any_of(depth);
      case 4:
        return definition_terms_.empty() ? object(depth, true) : reference();
      default:
        return leaf();
    }
  }

  RandomSchema leaf() {
    switch (pick(9)) {
      case 0:
        return {{{"type", "null"}}, l_.text("null")};
      case 1:
        return {{{"type", "boolean"}}, l_.any({l_.text("true"), l_.text("false")})};
      case 2:
        return {{{"type", "number"}}, j_.number()};
      case 3:
        return integer();
      case 4:
        return string();
      case 5:
        return listed();
      case 6:
        return {{{"const", "a\"b"}}, l_.text(R"("a\"b")")};
      case 7:
        return {{{"type", {"integer", "null"}}}, l_.any({j_.integer(), l_.text("null")})};
      default:
        return chance(2) ? RandomSchema{true, j_.value()} : RandomSchema{Json::object(), j_.value()};
    }
  }

  RandomSchema integer() {
    if (chance(3)) return {{{"type", "integer"}}, j_.integer()};
    const int min = pick(150) - 75, max = min + pick(40);
    std::vector<Term> values;
    for (int v = min; v <= max; ++v) values.push_back(l_.text(std::to_string(v)));
    Json json = {{"type", "integer"}, {"minimum", min}};
    if (chance(2)) {
      json["maximum"] = max;
    } else {
      json["exclusiveMaximum"] = max + 1;
    }
    return {json, l_.any(values)};
  }

  RandomSchema string() {
    if (chance(3)) return {{{"type", "string"}}, j_.string(0, Language::kEndless)};
    const int min = pick(4), max = min + pick(5);
    if (chance(3)) return {{{"minLength", min}}, j_.string(min, Language::kEndless)};
    return {{{"type", "string"}, {"minLength", min}, {"maxLength", max}}, j_.string(min, max)};
  }

  RandomSchema listed() {
    const Json values = {"red", "re", "\xC3\xA9", -1.5, 12, 120, nullptr, true, {{"a", {1, 2}}}, ""};
    Json chosen = Json::array();
    std::vector<Term> texts;
    for (int i = 0; i < 3; ++i) {
      chosen.push_back(values[pick(static_cast<int>(values.size()))]);
      texts.push_back(l_.text(chosen.back().dump()));
    }
    return {{{"enum", chosen}}, l_.any(texts)};
  }

  RandomSchema array(int depth) {
    const RandomSchema item = any(depth - 1);
    const int min = pick(3);
    if (chance(2))
      return {{{"type", "array"}, {"items", item.json}}, j_.array(item.term, 0, Language::kEndless)};
    const int max = min + pick(3);
    return {{{"items", item.json}, {"minItems", min}, {"maxItems", max}}, j_.array(item.term, min, max)};
  }

  RandomSchema object(int depth, bool may_require) {
    const std::vector<std::string> names = {"a", "ab", "id", "\xC3\xA9", "q\"", "name"};
    Json properties = Json::object(), required = Json::array();
    std::vector<JsonLanguage::Property> parts;
    std::set<std::string> plain_names;
    for (const std::string& name : names) {
      if (!chance(3)) continue;
      const RandomSchema value = any(depth - 1);
      const bool is_required = may_require && chance(2);
      properties[name] = value.json;
      if (is_required) required.push_back(name);
      parts.push_back({name, value.term, is_required});
      plain_names.insert(name);
    }
    Json json = {{"type", "object"}, {"properties", properties}};
    if (!required.empty()) json["required"] = required;
    Term key = Language::kNothing, value = j_.value();
    switch (pick(4)) {
      case 0:
        json["additionalProperties"] = false;
        break;
      case 1: {
        const RandomSchema other = any(depth - 1);
        json["additionalProperties"] = other.json;
        value = other.term;
        key = plain_names.empty() ? j_.string_key() : j_.key_except(plain_names);
        break;
      }
      default:
        break;  // closed, because 'properties' is there
    }
    return {json, j_.object(parts, key, value)};
  }

  RandomSchema any_of(int depth) {
    const RandomSchema a = any(depth - 1), b = any(depth - 1);
    return {{{"anyOf", {a.json, b.json}}}, l_.any({a.term, b.term})};
  }

  RandomSchema reference() {
    const auto& [name, term] = definition_terms_[pick(static_cast<int>(definition_terms_.size()))];
    return {{{"$ref", "#/$defs/" + name}}, term};
  }

  Language& l_;
  JsonLanguage j_;
  std::mt19937 random_;
  std::vector<std::pair<std::string, Term>> definition_terms_;
};

}  // namespace grokd::testing

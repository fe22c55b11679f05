#include "engine/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "engine/grammar/integer_range.h"
#include "engine/grammar/json_grammar.h"

namespace grokd::grammar {
namespace {

using Json = nlohmann::ordered_json;  // properties keep their order

constexpr int kMaxJsonDepth = 3 * kMaxDepth;  // a level of schema takes two or three of JSON

constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};

struct Keyword {
  std::string_view name;
  std::string_view type;  // the type it is about; "" for all
};
constexpr Keyword kKeywords[] = {
    {"type", ""},
    {"enum", ""},
    {"const", ""},
    {"anyOf", ""},
    {"$ref", ""},
    {"nullable", ""},
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"minimum", "integer"},
    {"maximum", "integer"},
    {"exclusiveMinimum", "integer"},
    {"exclusiveMaximum", "integer"},
};
/// They say nothing about the value.
constexpr std::string_view kIgnored[] = {"$schema",     "$id",        "$comment",    "$defs",
                                         "definitions", "title",      "description", "default",
                                         "examples",    "deprecated", "readOnly",    "writeOnly"};

const Keyword* find_keyword(std::string_view name) {
  const auto found = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                  [&](const Keyword& k) { return k.name == name; });
  return found == std::end(kKeywords) ? nullptr : found;
}

/// Both the JSON library's parser and what follows would cope badly with deep nesting: refuse it on the text.
void check_depth(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) throw GrammarError("the schema is nested too deep");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

/// A schema with the place where it stands, as a JSON pointer after '#'.
struct Schema {
  const Json& json;
  std::string where;

  bool has(const char* key) const { return json.contains(key); }
  Schema at(const std::string& key) const { return {json.at(key), where + "/" + key}; }
  [[noreturn]] void fail(const std::string& keyword, const std::string& message) const {
    throw GrammarError("schema keyword '" + keyword + "' at '#" + where + "' " + message, keyword);
  }
};

class SchemaParser {
 public:
  explicit SchemaParser(const Json& root) : root_(root) {
    const RuleId rule = grammar_.declare("the schema");
    json_.emplace(grammar_);
    rules_["#"] = rule;
    grammar_.define(rule, schema({root_, ""}));
  }
  Grammar take() { return std::move(grammar_); }

 private:
  /// A rule of its own for a schema inside another.
  ExprId sub_schema(const Schema& s) { return grammar_.call(grammar_.rule(s.where, schema(s))); }

  ExprId schema(const Schema& s) {
    if (depth_ >= kMaxDepth) throw GrammarError("the schema is nested deeper than 64 levels");
    ++depth_;
    const ExprId expr = schema_here(s);
    --depth_;
    return expr;
  }

  ExprId schema_here(const Schema& s) {
    if (s.json.is_boolean()) return s.json.get<bool>() ? json_->any_value() : grammar_.choice({});
    if (!s.json.is_object())
      throw GrammarError("the schema at '#" + s.where + "' is no object and no boolean");
    check_keywords(s);
    ExprId expr = 0;
    if (s.has("$ref")) {
      expr = reference(s);
    } else if (s.has("anyOf")) {
      expr = any_of(s);
    } else if (s.has("enum") || s.has("const")) {
      expr = listed_values(s);
    } else {
      expr = by_type(s);
    }
    return is_nullable(s) ? grammar_.choice({expr, grammar_.literal("null")}) : expr;
  }

  void check_keywords(const Schema& s) {
    for (const auto& [key, value] : s.json.items()) {
      const bool ignored = std::find(std::begin(kIgnored), std::end(kIgnored), key) != std::end(kIgnored);
      if (!ignored && find_keyword(key) == nullptr) s.fail(key, "is not supported");
    }
    for (const char* whole : {"$ref", "anyOf", "enum", "const"}) {
      if (s.has(whole)) check_alone(s, whole);
    }
  }

  /// A conjunction of these with other keywords is not a grammar this parser writes.
  void check_alone(const Schema& s, const std::string& whole) {
    const bool lists_values = whole == "enum" || whole == "const";
    for (const auto& [key, value] : s.json.items()) {
      const bool goes_with = key == whole || key == "nullable" || find_keyword(key) == nullptr ||
                             (lists_values && key == "type");
      if (!goes_with) s.fail(key, "is not supported beside '" + whole + "'");
    }
  }

  bool is_nullable(const Schema& s) {
    if (!s.has("nullable")) return false;
    if (!s.json["nullable"].is_boolean()) s.fail("nullable", "must be a boolean");
    return s.json["nullable"].get<bool>();
  }

  // ---- $ref, anyOf, enum, const ----

  ExprId reference(const Schema& s) {
    if (!s.json["$ref"].is_string()) s.fail("$ref", "must be a string");
    const std::string ref = s.json["$ref"].get<std::string>();
    if (const auto known = rules_.find(ref); known != rules_.end()) return grammar_.call(known->second);
    const Json* target = nullptr;
    try {
      if (ref.starts_with("#/")) target = &root_.at(Json::json_pointer(ref.substr(1)));
    } catch (const Json::exception&) {  // no pointer, or nothing there
    }
    if (target == nullptr) s.fail("$ref", "must point to a place in this schema, such as '#/$defs/name'");
    const RuleId rule = grammar_.declare(ref);
    rules_[ref] = rule;
    grammar_.define(rule, schema({*target, ref.substr(1)}));
    return grammar_.call(rule);
  }

  ExprId any_of(const Schema& s) {
    const Schema list = s.at("anyOf");
    if (!list.json.is_array() || list.json.empty()) s.fail("anyOf", "must be an array of schemas");
    std::vector<ExprId> options;
    for (std::size_t i = 0; i < list.json.size(); ++i) {
      options.push_back(sub_schema({list.json[i], list.where + "/" + std::to_string(i)}));
    }
    return grammar_.choice(std::move(options));
  }

  /// The values spelled out, without white space; with 'type', those that are of it.
  ExprId listed_values(const Schema& s) {
    std::vector<Json> values;
    if (s.has("const")) {
      values.push_back(s.json["const"]);
    } else {
      if (!s.json["enum"].is_array()) s.fail("enum", "must be an array");
      values.assign(s.json["enum"].begin(), s.json["enum"].end());
    }
    const std::vector<std::string> allowed_types = s.has("type") ? types(s) : std::vector<std::string>{};
    std::vector<ExprId> options;
    for (const Json& value : values) {
      const auto fits = [&](const std::string& type) { return is_of_type(value, type); };
      if (s.has("type") && std::none_of(allowed_types.begin(), allowed_types.end(), fits)) continue;
      options.push_back(grammar_.literal(value.dump()));
    }
    return grammar_.choice(std::move(options));
  }

  static bool is_of_type(const Json& value, const std::string& type) {
    if (type == "integer") {
      return value.is_number_integer() ||
             (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
    }
    return value.type_name() == type;
  }

  // ---- by type ----

  ExprId by_type(const Schema& s) {
    const std::vector<std::string> allowed_types = types(s);
    if (allowed_types.empty()) return json_->any_value();
    std::vector<ExprId> options;
    for (const std::string& type : allowed_types) options.push_back(of_type(s, type));
    return grammar_.choice(std::move(options));
  }

  /// From 'type', or else from the keywords that are about one type; empty: any type.
  std::vector<std::string> types(const Schema& s) {
    std::vector<std::string> out;
    if (!s.has("type")) {
      std::set<std::string> implied;
      for (const auto& [key, value] : s.json.items()) {
        const Keyword* keyword = find_keyword(key);
        if (keyword != nullptr && !keyword->type.empty()) implied.emplace(keyword->type);
      }
      out.assign(implied.begin(), implied.end());
      return out;
    }
    const Json& type = s.json["type"];
    if (type.is_array() && type.empty()) s.fail("type", "must not be empty");
    for (const Json& name : type.is_array() ? type : Json::array({type})) {
      const bool known = name.is_string() &&
                         std::find(kTypes.begin(), kTypes.end(), name.get<std::string>()) != kTypes.end();
      if (!known) s.fail("type", "must be the name of a JSON type or an array of such names");
      out.push_back(name.get<std::string>());
    }
    return out;
  }

  ExprId of_type(const Schema& s, const std::string& type) {
    if (type == "null") return grammar_.literal("null");
    if (type == "boolean") return grammar_.choice({grammar_.literal("true"), grammar_.literal("false")});
    if (type == "integer") return integer(s);
    if (type == "number") return number(s);
    if (type == "string") return string(s);
    return type == "array" ? array(s) : object(s);
  }

  ExprId number(const Schema& s) {
    for (const char* bound : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      if (s.has(bound)) s.fail(bound, "is not supported for 'number', only for 'integer'");
    }
    return json_->number();
  }

  ExprId integer(const Schema& s) {
    const bool bounded =
        s.has("minimum") || s.has("maximum") || s.has("exclusiveMinimum") || s.has("exclusiveMaximum");
    if (!bounded) return json_->integer();
    const std::int64_t min = std::max(bound(s, "minimum", -1, 0), bound(s, "exclusiveMinimum", -1, 1));
    const std::int64_t max = std::min(bound(s, "maximum", 1, 0), bound(s, "exclusiveMaximum", 1, -1));
    return min <= max ? integer_in_range(grammar_, min, max) : grammar_.choice({});
  }

  /// An integer bound in `direction` (-1 from below, 1 from above); `step` is added to a bound that is
  /// excluded.
  std::int64_t bound(const Schema& s, const char* keyword, int direction, int step) {
    if (!s.has(keyword)) return direction * kMaxInteger;
    if (!s.json[keyword].is_number()) s.fail(keyword, "must be a number");
    const double value = s.json[keyword].get<double>();
    if (!(std::abs(value) < static_cast<double>(kMaxInteger))) s.fail(keyword, "must have at most 18 digits");
    if (s.json[keyword].is_number_integer()) return s.json[keyword].get<std::int64_t>() + step;
    const double whole = direction < 0 ? std::ceil(value) : std::floor(value);
    return static_cast<std::int64_t>(whole) + (whole == value ? step : 0);
  }

  ExprId string(const Schema& s) {
    const int min = count(s, "minLength", 0), max = count(s, "maxLength", kUnbounded);
    return max != kUnbounded && min > max ? grammar_.choice({}) : json_->string(min, max);
  }

  ExprId array(const Schema& s) {
    const ExprId item = s.has("items") ? sub_schema(s.at("items")) : json_->any_value();
    const int min = count(s, "minItems", 0), max = count(s, "maxItems", kUnbounded);
    return max != kUnbounded && min > max ? grammar_.choice({}) : json_->array(item, min, max);
  }

  int count(const Schema& s, const char* keyword, int absent) {
    if (!s.has(keyword)) return absent;
    const Json& value = s.json[keyword];
    if (!value.is_number_unsigned()) s.fail(keyword, "must be an integer from 0");
    if (value.get<std::uint64_t>() > kMaxRepeat) s.fail(keyword, "must not be over 10000");
    return value.get<int>();
  }

  // ---- objects ----

  ExprId object(const Schema& s) {
    const std::set<std::string> required = required_names(s);
    std::vector<JsonGrammar::Property> properties;
    std::vector<std::u32string> names;
    std::size_t required_found = 0;
    if (s.has("properties")) {
      const Schema list = s.at("properties");
      if (!list.json.is_object()) s.fail("properties", "must be an object");
      for (const auto& [name, value] : list.json.items()) {
        const bool is_required = required.contains(name);
        required_found += is_required;
        properties.push_back({Json(name).dump(), sub_schema({value, list.where + "/" + name}), is_required});
        names.push_back(*decode_utf8(name));
      }
    }
    if (required_found != required.size()) s.fail("required", "has a name that is not in 'properties'");
    return with_other_properties(s, properties, names);
  }

  std::set<std::string> required_names(const Schema& s) {
    std::set<std::string> names;
    if (!s.has("required")) return names;
    if (!s.json["required"].is_array()) s.fail("required", "must be an array of strings");
    for (const Json& name : s.json["required"]) {
      if (!name.is_string()) s.fail("required", "must be an array of strings");
      names.insert(name.get<std::string>());
    }
    return names;
  }

  /// Objects are closed by default where 'properties' says what is in them.
  ExprId with_other_properties(const Schema& s, const std::vector<JsonGrammar::Property>& properties,
                               const std::vector<std::u32string>& names) {
    const bool closed =
        s.has("additionalProperties") ? s.json["additionalProperties"] == Json(false) : s.has("properties");
    if (closed) return json_->object(properties);
    const ExprId value =
        s.has("additionalProperties") ? sub_schema(s.at("additionalProperties")) : json_->any_value();
    return json_->object(properties, names.empty() ? json_->any_key() : json_->other_key(names), value);
  }

  const Json& root_;
  Grammar grammar_;
  std::optional<JsonGrammar> json_;
  std::map<std::string, RuleId> rules_;  // of the references met
  int depth_ = 0;
};

}  // namespace

Grammar parse_json_schema(std::string_view text) {
  check_depth(text);
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception&) {
    throw GrammarError("the schema is not valid JSON");
  }
  return SchemaParser(root).take();
}

Grammar json_object_grammar() {
  Grammar grammar;
  const RuleId root = grammar.declare("a JSON object");
  JsonGrammar json(grammar);
  grammar.define(root, json.any_object());
  return grammar;
}

}  // namespace grokd::grammar

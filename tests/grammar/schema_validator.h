#pragma once
// Whether a JSON value fits a schema, read off the value and not off the text.

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

namespace grokd::testing {

class SchemaValidator {
 public:
  using Json = nlohmann::json;
  explicit SchemaValidator(const Json& root) : root_(root) {}
  bool fits(const Json& value) const { return fits(root_, value); }

 private:
  bool fits(const Json& s, const Json& v) const {
    if (s.is_boolean()) return s.get<bool>();
    if (v.is_null() && s.value("nullable", false)) return true;
    if (s.contains("$ref"))
      return fits(root_.at(Json::json_pointer(s["$ref"].get<std::string>().substr(1))), v);
    if (s.contains("type") && !has_type(s["type"], v)) return false;
    if (s.contains("const") && s["const"] != v) return false;
    if (s.contains("enum") && !holds(s["enum"], v)) return false;
    if (s.contains("anyOf") && !fits_any(s["anyOf"], v)) return false;
    if (v.is_number()) return fits_number(s, v.get<double>());
    if (v.is_string()) return within(s, "minLength", "maxLength", code_points(v.get<std::string>()));
    if (v.is_array()) return fits_array(s, v);
    return !v.is_object() || fits_object(s, v);
  }
  static bool has_type(const Json& type, const Json& v) {
    if (type.is_array()) {
      return std::any_of(type.begin(), type.end(), [&](const Json& t) { return has_type(t, v); });
    }
    if (type == "integer") return v.is_number() && std::floor(v.get<double>()) == v.get<double>();
    return v.type_name() == type.get<std::string>();
  }
  static bool holds(const Json& list, const Json& v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  }
  bool fits_any(const Json& list, const Json& v) const {
    return std::any_of(list.begin(), list.end(), [&](const Json& s) { return fits(s, v); });
  }
  static bool fits_number(const Json& s, double v) {
    return v >= s.value("minimum", -1e300) && v <= s.value("maximum", 1e300) &&
           v < s.value("exclusiveMaximum", 1e301) && v > s.value("exclusiveMinimum", -1e301);
  }
  static bool within(const Json& s, const char* min, const char* max, std::size_t n) {
    return n >= s.value(min, std::size_t{0}) && n <= s.value(max, static_cast<std::size_t>(-1));
  }
  static std::size_t code_points(const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  }
  bool fits_array(const Json& s, const Json& v) const {
    if (!within(s, "minItems", "maxItems", v.size())) return false;
    return !s.contains("items") ||
           std::all_of(v.begin(), v.end(), [&](const Json& item) { return fits(s["items"], item); });
  }
  bool fits_object(const Json& s, const Json& v) const {
    for (const Json& name : s.value("required", Json::array())) {
      if (!v.contains(name.get<std::string>())) return false;
    }
    const Json properties = s.value("properties", Json::object());
    for (const auto& [name, item] : v.items()) {
      if (properties.contains(name)
              ? !fits(properties[name], item)
              : s.contains("additionalProperties") && !fits(s["additionalProperties"], item)) {
        return false;
      }
    }
    return true;
  }
  const Json& root_;
};

}  // namespace grokd::testing

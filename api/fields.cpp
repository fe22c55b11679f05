#include "api/fields.h"

#include <algorithm>

#include "api/error.h"
#include "api/json_writer.h"
#include "api/utf8.h"

namespace grokd::api {
namespace {

[[noreturn]] void throw_type(const JsonValue& value, const std::string& param, std::string_view wanted) {
  throw errors::invalid_type(
      param, "'" + param + "' must be " + std::string(wanted) + ", not " + std::string(value.kind()) + ".");
}

std::string number_text(double value) {
  std::string text;
  append_number(text, value);
  return text;
}

}  // namespace

std::int64_t read_integer(const JsonValue& value, const std::string& param, std::int64_t low,
                          std::int64_t high) {
  if (!value.is_number()) throw_type(value, param, "an integer");
  const std::optional<std::int64_t> integer = value.integer();
  if (!integer) {
    const double number = *value.number();
    const bool too_large = number <= -0x1p63 || number >= 0x1p63;
    if (!too_large)
      throw errors::invalid_type(param, "'" + param + "' must be an integer, without a fraction.");
  }
  if (integer && *integer >= low && *integer <= high) return *integer;
  throw errors::invalid_value(
      param, "'" + param + "' must be between " + std::to_string(low) + " and " + std::to_string(high) + ".");
}

double read_number(const JsonValue& value, const std::string& param, double low, double high) {
  const std::optional<double> number = value.number();
  if (!number) throw_type(value, param, "a number");
  if (*number >= low && *number <= high) return *number;
  throw errors::invalid_value(
      param, "'" + param + "' must be between " + number_text(low) + " and " + number_text(high) + ".");
}

const std::string& read_string(const JsonValue& value, const std::string& param, std::size_t shortest,
                               std::size_t longest) {
  const std::string* text = value.string();
  if (!text) throw_type(value, param, "a string");
  if (shortest == 0 && longest == SIZE_MAX) return *text;
  const std::size_t length = count_code_points(*text);
  if (length >= shortest && length <= longest) return *text;
  throw errors::invalid_value(param, "'" + param + "' must have between " + std::to_string(shortest) +
                                         " and " + std::to_string(longest) + " characters.");
}

const JsonArray& read_array(const JsonValue& value, const std::string& param) {
  if (!value.array()) throw_type(value, param, "an array");
  return *value.array();
}

const JsonObject& read_object(const JsonValue& value, const std::string& param) {
  if (!value.object()) throw_type(value, param, "an object");
  return *value.object();
}

FieldReader::FieldReader(const JsonObject& object, std::string path)
    : object_(object), path_(std::move(path)), known_(object.members().size()) {}

const JsonValue* FieldReader::find(std::string_view name) {
  const int index = object_.find(name);
  if (index < 0) return nullptr;
  known_[static_cast<std::size_t>(index)] = true;
  const JsonValue& value = object_.members()[static_cast<std::size_t>(index)].second;
  return value.is_null() ? nullptr : &value;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const JsonValue* value = find(name);
  return value ? std::optional(read_integer(*value, path(name), low, high)) : std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name, double low, double high) {
  const JsonValue* value = find(name);
  return value ? std::optional(read_number(*value, path(name), low, high)) : std::nullopt;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const JsonValue* value = find(name);
  if (!value) return std::nullopt;
  if (!value->boolean()) throw_type(*value, path(name), "true or false");
  return *value->boolean();
}

const std::string* FieldReader::string(std::string_view name, std::size_t shortest, std::size_t longest) {
  const JsonValue* value = find(name);
  return value ? &read_string(*value, path(name), shortest, longest) : nullptr;
}

const JsonArray* FieldReader::array(std::string_view name) {
  const JsonValue* value = find(name);
  return value ? &read_array(*value, path(name)) : nullptr;
}

const JsonObject* FieldReader::object(std::string_view name) {
  const JsonValue* value = find(name);
  return value ? &read_object(*value, path(name)) : nullptr;
}

std::string FieldReader::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

int FieldReader::unknown_fields() const { return static_cast<int>(std::ranges::count(known_, false)); }

const std::string* FieldReader::first_unknown_field() const {
  const auto unknown = std::ranges::find(known_, false);
  return unknown == known_.end()
             ? nullptr
             : &object_.members()[static_cast<std::size_t>(unknown - known_.begin())].first;
}

std::string element_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

}  // namespace grokd::api

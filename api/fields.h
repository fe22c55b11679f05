#pragma once
// Typed readers of the fields of a JSON object. Null counts as absent. What is wrong is thrown as an ApiError
// whose param is the path of the field.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"

namespace grokd::api {

inline constexpr std::int64_t kMaxInt64 = INT64_MAX, kMinInt64 = INT64_MIN;

std::int64_t read_integer(const JsonValue& value, const std::string& param, std::int64_t low,
                          std::int64_t high);
double read_number(const JsonValue& value, const std::string& param, double low, double high);
/// Length in code points.
const std::string& read_string(const JsonValue& value, const std::string& param, std::size_t shortest = 0,
                               std::size_t longest = SIZE_MAX);
const JsonArray& read_array(const JsonValue& value, const std::string& param);
const JsonObject& read_object(const JsonValue& value, const std::string& param);

class FieldReader {
 public:
  /// `path` stands before the field names in errors: "", "stream_options", "messages[0]".
  explicit FieldReader(const JsonObject& object, std::string path = "");

  /// Null if absent or null. Reading a field by any function makes it known.
  const JsonValue* find(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low = kMinInt64,
                                      std::int64_t high = kMaxInt64);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<bool> boolean(std::string_view name);
  const std::string* string(std::string_view name, std::size_t shortest = 0, std::size_t longest = SIZE_MAX);
  const JsonArray* array(std::string_view name);
  const JsonObject* object(std::string_view name);

  std::string path(std::string_view name) const;
  /// Fields nobody asked for.
  int unknown_fields() const;
  const std::string* first_unknown_field() const;  // null if there is none

 private:
  const JsonObject& object_;
  std::string path_;
  std::vector<bool> known_;
};

/// "messages" and 2 give "messages[2]".
std::string element_path(const std::string& path, std::size_t index);

}  // namespace grokd::api

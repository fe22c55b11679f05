#pragma once
// JSON as received: a value that can only be moved, read once at the door and turned into plain structs.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace grokd::api {

class JsonValue;
class JsonObject;
using JsonArray = std::vector<JsonValue>;

/// 16 bytes, so that a body of many small values stays near its own size. Integers above 2^63-1 are doubles.
class JsonValue {
 public:
  using Storage = std::variant<std::nullptr_t, bool, std::int64_t, double, std::unique_ptr<std::string>,
                               std::unique_ptr<JsonArray>, std::unique_ptr<JsonObject>>;
  JsonValue(Storage storage = nullptr);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(storage_); }
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const std::string* string() const { return pointee<std::string>(); }
  const JsonArray* array() const { return pointee<JsonArray>(); }
  const JsonObject* object() const { return pointee<JsonObject>(); }
  JsonArray* array() { return pointee<JsonArray>(); }
  JsonObject* object() { return pointee<JsonObject>(); }
  /// A number, integer or not.
  std::optional<double> number() const;
  /// A number without fraction that fits 64 bits; 5.0 and 5e0 are 5.
  std::optional<std::int64_t> integer() const;
  bool is_number() const { return number().has_value(); }
  /// "null", "a boolean", "a number", "a string", "an array", "an object".
  std::string_view kind() const;
  /// Compact JSON text, members in the order received.
  void append_text(std::string& out) const;

 private:
  template <class T>
  T* pointee() const {
    const auto* held = std::get_if<std::unique_ptr<T>>(&storage_);
    return held ? held->get() : nullptr;
  }

  Storage storage_;
};

/// Members in the order received; no key occurs twice.
class JsonObject {
 public:
  using Member = std::pair<std::string, JsonValue>;

  const std::vector<Member>& members() const { return members_; }
  /// Index of a key, or -1.
  int find(std::string_view key) const;
  JsonValue& add(std::string key);
  /// After the last `add`. Returns a key that occurs twice, or null.
  const std::string* close();

 private:
  std::vector<Member> members_;
  std::vector<std::uint32_t> by_key_;  // indices sorted by key
};

inline constexpr int kMaxJsonDepth = 64;

/// Throws ApiError invalid_json or json_too_deep. Nesting is counted while parsing, so no input can overflow
/// the stack.
JsonValue parse_json(std::string_view text);

/// The body of a request: as parse_json, and invalid_type if it is not an object.
JsonValue parse_json_object(std::string_view body);

}  // namespace grokd::api

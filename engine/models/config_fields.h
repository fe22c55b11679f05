#pragma once
// Typed access to the JSON objects of configuration files; every complaint names the file and the key.

#include <nlohmann/json.hpp>
#include <string>

#include "engine/models/config.h"

namespace grokd {

/// One object.
class Fields {
 public:
  Fields(std::string where, const nlohmann::json& object) : where_(std::move(where)), object_(object) {
    if (!object_.is_object()) throw ConfigError(where_ + ": must be a JSON object");
  }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw ConfigError(where_ + ": " + key + ": " + what);
  }
  bool has(const std::string& key) const { return object_.contains(key); }
  const nlohmann::json& need(const std::string& key) const {
    if (!has(key)) fail(key, "missing");
    return object_.at(key);
  }

  int integer(const std::string& key, int low, int high) const {
    return as_integer(key, need(key), low, high);
  }
  int integer(const std::string& key, int low, int high, int otherwise) const {
    return has(key) ? integer(key, low, high) : otherwise;
  }
  double number(const std::string& key, double low, double high) const {
    const nlohmann::json& value = need(key);
    if (!value.is_number()) fail(key, "must be a number, found " + shortened(value));
    const double x = value.get<double>();
    if (!(x >= low && x <= high)) {
      fail(key, "must be a number between " + nlohmann::json(low).dump() + " and " +
                    nlohmann::json(high).dump() + ", found " + shortened(value));
    }
    return x;
  }
  double number(const std::string& key, double low, double high, double otherwise) const {
    return has(key) ? number(key, low, high) : otherwise;
  }
  std::string text(const std::string& key) const {
    const nlohmann::json& value = need(key);
    if (!value.is_string()) fail(key, "must be a string, found " + shortened(value));
    return value.get<std::string>();
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    return has(key) ? text(key) : otherwise;
  }
  bool boolean(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!need(key).is_boolean()) fail(key, "must be true or false, found " + shortened(need(key)));
    return need(key).get<bool>();
  }
  int as_integer(const std::string& key, const nlohmann::json& value, int low, int high) const {
    const bool fits =
        value.is_number_integer() && value >= nlohmann::json(low) && value <= nlohmann::json(high);
    if (!fits) {
      fail(key, "must be an integer between " + std::to_string(low) + " and " + std::to_string(high) +
                    ", found " + shortened(value));
    }
    return value.get<int>();
  }
  std::string child(const std::string& key) const { return where_ + ": " + key; }

 private:
  static std::string shortened(const nlohmann::json& value) {
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 40) + "...";
    return text;
  }
  std::string where_;
  const nlohmann::json& object_;
};

/// `parent`'s object `key`. `context`: of the model, where the object does not say the original one; 0 = it
/// must.
kernels::RopeScaling read_rope_scaling(const Fields& parent, const std::string& key, int context);
nlohmann::ordered_json rope_scaling_json(const kernels::RopeScaling& scaling);

}  // namespace grokd

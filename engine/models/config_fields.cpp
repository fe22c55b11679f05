#include "engine/models/config_fields.h"

#include <nlohmann/json.hpp>

namespace grokd {

using nlohmann::json;

namespace {

std::string shortened(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  return text;
}

}  // namespace

Fields::Fields(std::string where, const json& object) : where_(std::move(where)), object_(object) {
  if (!object_.is_object()) throw ConfigError(where_ + ": must be a JSON object");
}

void Fields::fail(const std::string& key, const std::string& what) const {
  throw ConfigError(where_ + ": " + key + ": " + what);
}

bool Fields::has(const std::string& key) const { return object_.contains(key); }

const json& Fields::need(const std::string& key) const {
  if (!has(key)) fail(key, "missing");
  return object_.at(key);
}

int Fields::integer(const std::string& key, int low, int high) const {
  return as_integer(key, need(key), low, high);
}

int Fields::integer(const std::string& key, int low, int high, int otherwise) const {
  return has(key) ? integer(key, low, high) : otherwise;
}

double Fields::number(const std::string& key, double low, double high) const {
  const json& value = need(key);
  if (!value.is_number()) fail(key, "must be a number, found " + shortened(value));
  const double x = value.get<double>();
  if (!(x >= low && x <= high)) {
    fail(key, "must be a number between " + json(low).dump() + " and " + json(high).dump() + ", found " +
                  shortened(value));
  }
  return x;
}

double Fields::number(const std::string& key, double low, double high, double otherwise) const {
  return has(key) ? number(key, low, high) : otherwise;
}

std::string Fields::text(const std::string& key) const {
  const json& value = need(key);
  if (!value.is_string()) fail(key, "must be a string, found " + shortened(value));
  return value.get<std::string>();
}

std::string Fields::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

bool Fields::boolean(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!need(key).is_boolean()) fail(key, "must be true or false, found " + shortened(need(key)));
  return need(key).get<bool>();
}

int Fields::as_integer(const std::string& key, const json& value, int low, int high) const {
  const bool fits = value.is_number_integer() && value >= json(low) && value <= json(high);
  if (!fits) {
    fail(key, "must be an integer between " + std::to_string(low) + " and " + std::to_string(high) +
                  ", found " + shortened(value));
  }
  return value.get<int>();
}

}  // namespace grokd

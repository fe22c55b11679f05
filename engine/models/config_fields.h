#pragma once
// Typed access to the JSON objects of configuration files; every complaint names the file and the key.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/models/config.h"

namespace grokd {

/// One object, which outlives this.
class Fields {
 public:
  Fields(std::string where, const nlohmann::json& object);
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;
  bool has(const std::string& key) const;
  const nlohmann::json& need(const std::string& key) const;

  int integer(const std::string& key, int low, int high) const;
  int integer(const std::string& key, int low, int high, int otherwise) const;
  double number(const std::string& key, double low, double high) const;
  double number(const std::string& key, double low, double high, double otherwise) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  bool boolean(const std::string& key, bool otherwise) const;
  int as_integer(const std::string& key, const nlohmann::json& value, int low, int high) const;
  std::string child(const std::string& key) const { return where_ + ": " + key; }

 private:
  std::string where_;
  const nlohmann::json& object_;
};

/// `parent`'s object `key`. `context`: of the model, where the object does not say the original one; 0 = it
/// must.
kernels::RopeScaling read_rope_scaling(const Fields& parent, const std::string& key, int context);
nlohmann::ordered_json rope_scaling_json(const kernels::RopeScaling& scaling);

}  // namespace grokd

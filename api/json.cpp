#include "api/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "api/error.h"
#include "api/json_writer.h"

namespace grokd::api {

JsonValue::JsonValue(Storage storage) : storage_(std::move(storage)) {}
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;

std::optional<double> JsonValue::number() const {
  if (const auto* integer = std::get_if<std::int64_t>(&storage_)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&storage_)) return *real;
  return std::nullopt;
}

std::optional<std::int64_t> JsonValue::integer() const {
  if (const auto* integer = std::get_if<std::int64_t>(&storage_)) return *integer;
  const auto* real = std::get_if<double>(&storage_);
  if (!real || std::trunc(*real) != *real) return std::nullopt;
  if (!(*real >= -0x1p63 && *real < 0x1p63)) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

std::string_view JsonValue::kind() const {
  constexpr std::string_view kKinds[] = {"null",     "a boolean", "a number", "a number",
                                         "a string", "an array",  "an object"};
  return kKinds[storage_.index()];
}

void JsonValue::append_text(std::string& out) const {
  if (const bool* flag = boolean()) {
    append_bool(out, *flag);
  } else if (const auto* integer = std::get_if<std::int64_t>(&storage_)) {
    append_integer(out, *integer);
  } else if (const auto* real = std::get_if<double>(&storage_)) {
    append_number(out, *real);
  } else if (string()) {
    append_string(out, *string());
  } else if (array()) {
    out += '[';
    for (const JsonValue& value : *array()) {
      if (&value != array()->data()) out += ',';
      value.append_text(out);
    }
    out += ']';
  } else if (object()) {
    out += '{';
    for (const JsonObject::Member& member : object()->members()) {
      if (&member != object()->members().data()) out += ',';
      append_string(out, member.first);
      out += ':';
      member.second.append_text(out);
    }
    out += '}';
  } else {
    out += "null";
  }
}

JsonValue& JsonObject::add(std::string key) {
  return members_.emplace_back(std::move(key), JsonValue{}).second;
}

const std::string* JsonObject::close() {
  const auto key = [this](std::uint32_t index) -> const std::string& { return members_[index].first; };
  by_key_.resize(members_.size());
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::ranges::sort(by_key_, {}, key);
  const auto twin = std::ranges::adjacent_find(by_key_, {}, key);
  return twin == by_key_.end() ? nullptr : &key(*twin);
}

int JsonObject::find(std::string_view key) const {
  const auto key_of = [this](std::uint32_t index) { return std::string_view(members_[index].first); };
  const auto found = std::ranges::lower_bound(by_key_, key, {}, key_of);
  return found != by_key_.end() && key_of(*found) == key ? static_cast<int>(*found) : -1;
}

namespace {

/// Builds a JsonValue from the events of nlohmann's parser, which keeps no stack of its own calls.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put(JsonValue(nullptr)); }
  bool boolean(bool value) override { return put(JsonValue(value)); }
  bool number_integer(number_integer_t value) override { return put(JsonValue(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= INT64_MAX) return put(JsonValue(static_cast<std::int64_t>(value)));
    return put(JsonValue(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    // An integer just below -2^63 is rounded to -2^63, which would pass for a 64-bit integer.
    const bool whole = text.find_first_of(".eE") == string_t::npos;
    if (whole && value == -0x1p63) value = std::nextafter(value, -HUGE_VAL);
    return put(JsonValue(value));
  }
  bool string(string_t& value) override {
    return put(JsonValue(std::make_unique<std::string>(std::move(value))));
  }
  bool binary(binary_t&) override { return false; }
  bool start_array(std::size_t) override { return open(JsonValue(std::make_unique<JsonArray>())); }
  bool start_object(std::size_t) override { return open(JsonValue(std::make_unique<JsonObject>())); }
  bool end_array() override { return close(); }
  bool end_object() override {
    if (const std::string* twin = stack_.back()->object()->close()) {
      throw errors::invalid_json("The JSON body has the key " + quote_bytes(*twin) + " twice in one object.");
    }
    return close();
  }
  bool key(string_t& name) override {
    slot_ = &stack_.back()->object()->add(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& ex) override {
    throw errors::invalid_json("The body is not valid JSON: " + reason(ex.what()) + " at byte " +
                               std::to_string(position) + ".");
  }
  JsonValue take() { return std::move(root_); }

 private:
  JsonValue* place(JsonValue value) {
    JsonValue* target = slot_;
    if (!target) target = stack_.empty() ? &root_ : &stack_.back()->array()->emplace_back();
    slot_ = nullptr;
    *target = std::move(value);
    return target;
  }
  bool put(JsonValue value) { return place(std::move(value)) != nullptr; }
  bool open(JsonValue container) {
    if (stack_.size() == kMaxJsonDepth) throw errors::json_too_deep(kMaxJsonDepth);
    // The place stays put while the container is open: its parent gets no other child meanwhile.
    stack_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
  /// The part of the parser's message that holds none of the client's bytes.
  static std::string reason(std::string_view message) {
    constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
        {"ill-formed UTF-8", "broken UTF-8"},
        {"surrogate", "a lone surrogate"},
        {"number overflow", "a number is too large"},
        {"control character", "a control character inside a string"},
        {"missing closing quote", "a string is not closed"},
        {"unexpected end of input", "the text ends too early"},
        {"expected end of input", "there is more after the end"},
    };
    for (const auto& [part, words] : kReasons) {
      if (message.find(part) != std::string_view::npos) return std::string(words);
    }
    return "a syntax error";
  }

  JsonValue root_;
  std::vector<JsonValue*> stack_;  // open containers
  JsonValue* slot_ = nullptr;      // where the value of the last key goes
};

}  // namespace

JsonValue parse_json(std::string_view text) {
  // The parser would take a NUL byte for the end of the text and never look behind it.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw errors::invalid_json("The body is not valid JSON: a NUL byte at byte " + std::to_string(nul + 1) +
                               ".");
  }
  Builder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

JsonValue parse_json_object(std::string_view body) {
  JsonValue value = parse_json(body);
  if (!value.object()) throw errors::invalid_body_type();
  return value;
}

}  // namespace grokd::api

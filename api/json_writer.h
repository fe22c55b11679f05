#pragma once
// Appends JSON pieces to a string. Whatever the input, the output is valid JSON in valid UTF-8.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace grokd::api {

/// Quoted and escaped; broken UTF-8 becomes U+FFFD.
void append_string(std::string& out, std::string_view text);
void append_integer(std::string& out, std::int64_t value);
/// Shortest form that reads back as the same double.
void append_number(std::string& out, double value);
/// Shortest form that reads back as the same float32; below -9999, -inf and NaN are written as -9999.0.
void append_logprob(std::string& out, float value);
void append_bool(std::string& out, bool value);
void append_integers(std::string& out, std::span<const std::int32_t> values);
/// The bytes as an array of numbers 0..255.
void append_bytes(std::string& out, std::string_view bytes);

}  // namespace grokd::api

#pragma once
// Reading golden files: JSON with numbers as strings of bits (tests/golden/makers/make_bit_golden.py).

#include <bit>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace grokd::test {

/// `name` is relative to tests/golden, e.g. "golden-bits/units.json".
inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(std::string(GROKD_GOLDEN_DIR) + "/" + name);
  if (!file) throw std::runtime_error("golden file " + name + " is missing");
  return nlohmann::json::parse(file);
}

/// "3f800000bf800000" -> {0x3f800000, 0xbf800000} for 32-bit words, likewise for 64-bit words.
template <class Word>
std::vector<Word> parse_words(std::string_view hex) {
  constexpr std::size_t kDigits = 2 * sizeof(Word);
  std::vector<Word> words;
  for (std::size_t i = 0; i + kDigits <= hex.size(); i += kDigits) {
    Word word = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + kDigits, word, 16);
    if (error != std::errc{} || end != hex.data() + i + kDigits)
      throw std::runtime_error("bad digits in bits");
    words.push_back(word);
  }
  if (hex.size() % kDigits != 0) throw std::runtime_error("bits end in the middle of a number");
  return words;
}

inline std::vector<float> parse_floats(const nlohmann::json& bits) {
  std::vector<float> values;
  for (const auto word : parse_words<std::uint32_t>(bits.get_ref<const std::string&>())) {
    values.push_back(std::bit_cast<float>(word));
  }
  return values;
}

inline std::vector<double> parse_doubles(const nlohmann::json& bits) {
  std::vector<double> values;
  for (const auto word : parse_words<std::uint64_t>(bits.get_ref<const std::string&>())) {
    values.push_back(std::bit_cast<double>(word));
  }
  return values;
}

/// A scale: bits, or "nan" for a poisoned row.
inline float parse_scale(const nlohmann::json& bits) {
  if (bits == "nan") return std::numeric_limits<float>::quiet_NaN();
  return parse_floats(bits).at(0);
}

/// FNV-1a-64 of the bytes of an array, as the golden files' "fnv" fields have it.
template <class T>
std::string fnv1a64(const std::vector<T>& values) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[hash >> shift & 15];
  return text;
}

}  // namespace grokd::test

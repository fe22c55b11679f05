#include "engine/checkpoint/safetensors_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace grokd {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLargestHeader = 16 << 20;  // a model of a million tensors has less
constexpr int kDeepest = 3;                         // header, tensor, its shape
constexpr std::size_t kMostDimensions = 8;

struct TypeName {
  std::string_view name;
  DType type;
};

constexpr std::array<TypeName, 3> kTypes = {
    {{"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16}}};

std::optional<DType> type_of(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) return type.type;
  }
  return std::nullopt;
}

json parse_header(std::string_view text) {
  const auto bounded = [](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw FileFormatError("the header is nested too deep");
    return true;
  };
  try {
    json header = json::parse(text, bounded);
    if (!header.is_object()) throw FileFormatError("the header is no JSON object");
    return header;
  } catch (const json::exception&) {
    throw FileFormatError("the header is not valid JSON");
  }
}

/// A tensor with the bytes it takes, counted from the end of the header.
struct Placed {
  std::uint64_t begin = 0, end = 0;
  StoredTensor tensor;
};

std::vector<std::uint64_t> numbers(const std::string& name, const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array() || found->size() > kMostDimensions)
    throw FileFormatError(name + ": no sane " + key);
  std::vector<std::uint64_t> values;
  for (const json& value : *found) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > (std::uint64_t{1} << 48))
      throw FileFormatError(name + ": no sane " + key);
    values.push_back(value.get<std::uint64_t>());
  }
  return values;
}

/// The bytes of an array of this shape; nothing if there are more than a file can have.
std::optional<std::uint64_t> bytes_of(const std::vector<std::uint64_t>& shape, std::uint64_t unit) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  std::uint64_t bytes = unit;
  for (const std::uint64_t dimension : shape) {
    if (dimension > 0 && bytes > kMost / dimension) return std::nullopt;
    bytes *= dimension;
  }
  return bytes;
}

Placed read_entry(const std::string& name, const json& entry) {
  if (!entry.is_object()) throw FileFormatError(name + ": is described by no object");
  const auto type = entry.find("dtype");
  if (type == entry.end() || !type->is_string()) throw FileFormatError(name + ": no dtype");
  const auto shape = numbers(name, entry, "shape"), offsets = numbers(name, entry, "data_offsets");
  if (offsets.size() != 2 || offsets[1] < offsets[0]) throw FileFormatError(name + ": no sane data_offsets");
  Placed placed{offsets[0], offsets[1], {name, type->get<std::string>()}};
  const auto known = type_of(placed.tensor.type);
  if (!known) return placed;
  placed.tensor.usable = true;
  placed.tensor.view.dtype = *known;
  placed.tensor.view.shape.assign(shape.begin(), shape.end());
  if (bytes_of(shape, dtype_bytes(*known)) != placed.end - placed.begin)
    throw FileFormatError(name + ": its shape and its data_offsets disagree");
  return placed;
}

void check_places(std::vector<Placed>& all, std::uint64_t data_bytes) {
  std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const Placed& placed : all) {
    if (placed.begin < end) throw FileFormatError(placed.tensor.name + ": overlaps another tensor");
    if (placed.begin > end) throw FileFormatError(placed.tensor.name + ": has a gap before it");
    end = placed.end;
  }
  if (end > data_bytes)
    throw FileFormatError(all.back().tensor.name + ": ends beyond the file, which is cut off");
  if (end < data_bytes) throw FileFormatError("there are bytes that belong to no tensor");
}

}  // namespace

std::vector<StoredTensor> read_safetensors(std::span<const std::byte> file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) throw FileFormatError("is too short for a header");
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kLargestHeader)
    throw FileFormatError("its header is said to have " + std::to_string(length) + " bytes");
  if (length > file.size() - sizeof length) throw FileFormatError("ends within its header");
  const std::span<const std::byte> data = file.subspan(sizeof length + length);
  const json header = parse_header(
      {reinterpret_cast<const char*>(file.data()) + sizeof length, static_cast<std::size_t>(length)});
  std::vector<Placed> all;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") all.push_back(read_entry(name, entry));
  }
  if (all.empty()) throw FileFormatError("holds no tensors");
  check_places(all, data.size());
  std::vector<StoredTensor> tensors;
  for (Placed& placed : all) {
    if (placed.tensor.usable) placed.tensor.view.data = data.data() + placed.begin;
    tensors.push_back(std::move(placed.tensor));
  }
  return tensors;
}

}  // namespace grokd

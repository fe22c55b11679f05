#include "engine/checkpoint/gguf_file.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace grokd {
namespace {

constexpr std::uint64_t kMostEntries = 1 << 20, kLongestString = 1 << 20,
                        kLargestDimension = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kDefaultAlignment = 32;

/// Reads from the front of the file; every step is checked against its end.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes), size_(bytes.size()) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, run(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto length = take<std::uint64_t>();
    if (length > kLongestString)
      throw FileFormatError("has a string of " + std::to_string(length) + " bytes");
    const auto bytes = run(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> run(std::uint64_t bytes) {
    if (bytes > rest_.size()) throw FileFormatError("ends within its header");
    const auto taken = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(static_cast<std::size_t>(bytes));
    return taken;
  }
  std::size_t position() const { return size_ - rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  std::size_t size_;
};

enum ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
constexpr std::array<std::uint64_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

void skip_array(Cursor& cursor) {
  const auto type = cursor.take<std::uint32_t>();
  const auto count = cursor.take<std::uint64_t>();
  if (type == string) {
    for (std::uint64_t i = 0; i < count; ++i) cursor.run(cursor.take<std::uint64_t>());
    return;
  }
  if (type >= kValueBytes.size() || type == array) throw FileFormatError("has an array of an unknown type");
  if (count > (std::uint64_t{1} << 40)) throw FileFormatError("ends within its header");
  cursor.run(count * kValueBytes[type]);
}

/// Nothing for arrays.
std::optional<GgufValue> take_value(Cursor& cursor) {
  const auto type = cursor.take<std::uint32_t>();
  const auto whole = [](auto value) { return GgufValue(static_cast<std::int64_t>(value)); };
  switch (type) {
    case u8:
      return whole(cursor.take<std::uint8_t>());
    case i8:
      return whole(cursor.take<std::int8_t>());
    case u16:
      return whole(cursor.take<std::uint16_t>());
    case i16:
      return whole(cursor.take<std::int16_t>());
    case u32:
      return whole(cursor.take<std::uint32_t>());
    case i32:
      return whole(cursor.take<std::int32_t>());
    case u64:
      return whole(cursor.take<std::uint64_t>());
    case i64:
      return whole(cursor.take<std::int64_t>());
    case f32:
      return GgufValue(static_cast<double>(cursor.take<float>()));
    case f64:
      return GgufValue(cursor.take<double>());
    case boolean:
      return GgufValue(cursor.take<std::uint8_t>() != 0);
    case string:
      return GgufValue(cursor.text());
    case array:
      skip_array(cursor);
      return std::nullopt;
    default:
      throw FileFormatError("has a value of an unknown type");
  }
}

struct TensorType {
  std::uint32_t number;
  std::string_view name;
  DType type;
};

constexpr std::array<TensorType, 4> kTypes = {
    {{0, "F32", DType::f32}, {1, "F16", DType::f16}, {8, "Q8_0", DType::q8_0}, {30, "BF16", DType::bf16}}};

struct Listed {
  StoredTensor tensor;
  std::uint64_t offset = 0;
};

std::vector<std::int64_t> take_shape(Cursor& cursor, const std::string& name) {
  const auto dimensions = cursor.take<std::uint32_t>();
  if (dimensions == 0 || dimensions > kMostDimensions) throw FileFormatError(name + ": no sane shape");
  std::vector<std::int64_t> shape;
  std::uint64_t values = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto dimension = cursor.take<std::uint64_t>();
    if (dimension == 0 || dimension > kLargestDimension / values)
      throw FileFormatError(name + ": no sane shape");
    values *= dimension;
    shape.insert(shape.begin(), static_cast<std::int64_t>(dimension));
  }
  return shape;
}

Listed take_tensor(Cursor& cursor) {
  Listed listed;
  listed.tensor.name = cursor.text();
  listed.tensor.view.shape = take_shape(cursor, listed.tensor.name);
  const auto number = cursor.take<std::uint32_t>();
  listed.offset = cursor.take<std::uint64_t>();
  listed.tensor.type = "number " + std::to_string(number);
  for (const TensorType& known : kTypes) {
    if (known.number != number) continue;
    listed.tensor.type = std::string(known.name);
    listed.tensor.view.dtype = known.type;
    listed.tensor.usable = known.type != DType::q8_0 || listed.tensor.view.shape.back() % 32 == 0;
  }
  return listed;
}

std::uint64_t alignment_of(const GgufFile& gguf) {
  const auto found = gguf.metadata.find("general.alignment");
  if (found == gguf.metadata.end()) return kDefaultAlignment;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr || *value <= 0 || *value > 1 << 20)
    throw FileFormatError("general.alignment: no sane value");
  return static_cast<std::uint64_t>(*value);
}

/// Gives the usable tensors their bytes, which must lie in the file and not overlap.
void place(std::vector<Listed>& all, std::span<const std::byte> data) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (Listed& listed : all) {
    if (!listed.tensor.usable) continue;
    listed.tensor.view.data = data.data();  // counts once it is present
    const std::uint64_t bytes = listed.tensor.view.bytes();
    if (listed.offset > data.size() || bytes > data.size() - listed.offset)
      throw FileFormatError(listed.tensor.name + ": ends beyond the file, which is cut off");
    listed.tensor.view.data = data.data() + listed.offset;
    taken.emplace_back(listed.offset, listed.offset + bytes);
  }
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].first < taken[i - 1].second) throw FileFormatError("two tensors overlap");
  }
}

}  // namespace

GgufFile read_gguf(std::span<const std::byte> file) {
  Cursor cursor(file);
  if (file.size() < 24 || std::memcmp(cursor.run(4).data(), "GGUF", 4) != 0)
    throw FileFormatError("is no GGUF file");
  const auto version = cursor.take<std::uint32_t>();
  if (version != 2 && version != 3) throw FileFormatError("is GGUF version " + std::to_string(version));
  const auto tensors = cursor.take<std::uint64_t>(), pairs = cursor.take<std::uint64_t>();
  if (tensors > kMostEntries || pairs > kMostEntries)
    throw FileFormatError("lists more than a file can hold");
  GgufFile gguf;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    std::string key = cursor.text();
    if (auto value = take_value(cursor)) gguf.metadata.insert_or_assign(std::move(key), std::move(*value));
  }
  std::vector<Listed> all;
  for (std::uint64_t i = 0; i < tensors; ++i) all.push_back(take_tensor(cursor));
  const std::uint64_t unit = alignment_of(gguf);
  const std::uint64_t begin = (cursor.position() + unit - 1) / unit * unit;
  place(all,
        begin < file.size() ? file.subspan(static_cast<std::size_t>(begin)) : std::span<const std::byte>());
  for (Listed& listed : all) gguf.tensors.push_back(std::move(listed.tensor));
  return gguf;
}

}  // namespace grokd

#pragma once
// Pickles made by hand, opcode by opcode, so that each part can be made wrong.

#include <cstdint>
#include <cstring>
#include <string>

namespace grokd::test {

template <class T>
std::string raw(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

inline std::string byte(int value) { return std::string(1, static_cast<char>(value)); }
inline const std::string kProto = byte(0x80) + byte(4);
inline const std::string kStop = ".", kMark = "(", kNone = "N", kReduce = "R", kBuild = "b";
inline const std::string kFalse = byte(0x89), kTrue = byte(0x88);
inline const std::string kEmptyTuple = ")", kEmptyDict = "}", kNewObject = byte(0x81), kSetItems = "u";

inline std::string text(const std::string& s) { return byte(0x8c) + byte(static_cast<int>(s.size())) + s; }
inline std::string global(const std::string& module, const std::string& name) {
  return text(module) + text(name) + byte(0x93);
}
inline std::string integer(std::int32_t value) { return "J" + raw(value); }
inline std::string payload(const std::string& bytes) {
  return "B" + raw(static_cast<std::uint32_t>(bytes.size())) + bytes;
}
inline std::string group(const std::string& items) { return kMark + items + "t"; }

/// Everything that a test may want to change in an array.
struct ArrayPieces {
  std::string callable = global("numpy.core.multiarray", "_reconstruct");
  std::string dtype_argument = text("f4");
  std::string order = "<";
  std::string version = integer(1);
  std::string shape = group(integer(2) + integer(3));
  std::string fortran = kFalse;
  std::string contents = payload(std::string(24, 'x'));

  std::string dtype() const {
    return global("numpy", "dtype") + dtype_argument + kFalse + kTrue + byte(0x87) + kReduce +
           group(integer(3) + text(order) + kNone + kNone + kNone + integer(-1) + integer(-1) + integer(0)) +
           kBuild;
  }
  std::string bare() const {
    return callable + global("numpy", "ndarray") + group(integer(0)) + payload("b") + byte(0x87) + kReduce;
  }
  std::string str() const { return bare() + group(version + shape + dtype() + fortran + contents) + kBuild; }
};

inline ArrayPieces int8_array() {
  ArrayPieces a;
  a.dtype_argument = text("i1");
  a.order = "|";
  a.contents = payload("abcdef");
  return a;
}

inline ArrayPieces bf16_array() {
  ArrayPieces a;
  a.dtype_argument = global("ml_dtypes", "bfloat16");
  a.shape = group(integer(1) + integer(3));
  a.contents = payload("ABCDEF");
  return a;
}

inline std::string file_of(const std::string& value) { return kProto + value + kStop; }

inline std::string quantized_of(const std::string& members) {
  return global("__main__", "QuantizedWeight8bit") + kEmptyTuple + kNewObject + kEmptyDict + kMark + members +
         kSetItems + kBuild;
}

inline std::string quantized(const std::string& weight, const std::string& scales) {
  return quantized_of(text("weight") + weight + text("scales") + scales);
}

}  // namespace grokd::test

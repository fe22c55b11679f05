#include <doctest/doctest.h>

#include "engine/checkpoint/xai_pickle.h"
#include "tests/support/pickle_pieces.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

PickledTensor read(const std::string& file) {
  return read_xai_pickle(std::as_bytes(std::span<const char>(file.data(), file.size())));
}

/// The complaint about `file`; one line, whatever the file holds.
std::string complaint(const std::string& file) {
  const std::string message = message_of<PickleError>([&] { read(file); });
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.size() < 300);
  return message;
}

bool says(const std::string& message, const std::string& part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a plain array is a view of the file's own bytes") {
  const std::string file = file_of(ArrayPieces{}.str());
  const PickledTensor tensor = read(file);
  CHECK(tensor.weight.dtype == DType::f32);
  CHECK(tensor.weight.shape == std::vector<std::int64_t>{2, 3});
  CHECK(tensor.weight.bytes() == 24);
  CHECK(reinterpret_cast<const char*>(tensor.weight.data) == file.data() + file.find("xxxx"));
  CHECK_FALSE(tensor.scales.present());
}

TEST_CASE("a quantised weight has int8 values and bfloat16 scales, in either order") {
  const std::string weight = text("weight") + int8_array().str(),
                    scales = text("scales") + bf16_array().str();
  for (const std::string& members : {weight + scales, scales + weight}) {
    const std::string file = file_of(quantized_of(members));
    const PickledTensor tensor = read(file);
    CHECK(tensor.weight.dtype == DType::i8);
    CHECK(tensor.weight.shape == std::vector<std::int64_t>{2, 3});
    CHECK(static_cast<char>(tensor.weight.data[5]) == 'f');
    CHECK(tensor.scales.dtype == DType::bf16);
    CHECK(tensor.scales.shape == std::vector<std::int64_t>{1, 3});
    CHECK(static_cast<char>(tensor.scales.data[5]) == 'F');
  }
}

TEST_CASE("the names of NumPy 2 and long forms of opcodes are read too") {
  ArrayPieces array;
  array.callable = global("numpy._core.multiarray", "_reconstruct");
  array.dtype_argument = "X" + raw(std::uint32_t{2}) + "f4";
  array.contents = byte(0x8e) + raw(std::uint64_t{24}) + std::string(24, 'x');
  CHECK(read(file_of(array.str())).weight.bytes() == 24);
}

TEST_CASE("a memoised value is recalled by its number") {
  ArrayPieces array;
  array.version = integer(1) + byte(0x94);
  array.shape = "h" + byte(0) + byte(0x94) + "j" + raw(std::uint32_t{1}) + byte(0x86);
  array.contents = payload("abcd");
  CHECK(read(file_of(array.str())).weight.shape == std::vector<std::int64_t>{1, 1});
  CHECK(says(complaint(file_of("h" + byte(3))), "recalls a value that was never stored"));
  CHECK(says(complaint(file_of("j" + raw(std::uint32_t{0xffffffff}))), "recalls a value"));
}

TEST_CASE("a pickle that refers to anything but arrays is refused before anything is called") {
  const std::string call = text("touch /tmp/x") + byte(0x85) + kReduce;
  CHECK(says(complaint(file_of(global("os", "system") + call)), "\"os.system\", which no tensor needs"));
  CHECK(says(complaint(file_of(global("builtins", "eval") + call)), "builtins.eval"));
  CHECK(says(complaint(file_of(global("numpy", "load") + call)), "numpy.load"));
  CHECK(says(complaint(kProto + "cos\nsystem\n."), "opcode 0x63"));  // GLOBAL of old protocols
  CHECK(says(complaint(file_of(global("numpy", "ndarray") + call)), "calls something"));
  // Control characters never reach the terminal.
  CHECK(says(complaint(file_of(global("a\nb\x1b[2J", "x"))), "\"a?b?[2J.x\""));
  CHECK(says(complaint(file_of(global("numpy", "dtype") + kEmptyTuple + kNewObject)), "QuantizedWeight8bit"));
}

TEST_CASE("sizes are compared with the file before anything is read") {
  CHECK(says(complaint(kProto + byte(0x8e) + raw(std::uint64_t{1} << 60)),
             "needs 1152921504606846976 more bytes"));
  CHECK(says(complaint(kProto + byte(0x8e) + raw(~std::uint64_t{0})), "more bytes"));
  CHECK(says(complaint(kProto + byte(0x95) + raw(std::uint64_t{1} << 60) + "."), "frame is longer"));
  CHECK(says(complaint(kProto + "B" + raw(std::uint32_t{0xffffffff})), "more bytes"));
  ArrayPieces array;
  array.shape = group(integer(0x7fffffff) + integer(0x7fffffff) + integer(0x7fffffff));
  CHECK(says(complaint(file_of(array.str())), "does not have the size of its shape"));
  array.shape = group(integer(2) + integer(4));
  CHECK(says(complaint(file_of(array.str())), "24 bytes does not have the size"));
  array.shape = group(integer(-2) + integer(-3));
  CHECK(says(complaint(file_of(array.str())), "negative dimension"));
}

TEST_CASE("nesting and length are bounded") {
  const std::size_t many = 100000;
  CHECK(says(complaint(kProto + std::string(many, '(')), "nests too deeply"));
  CHECK(says(complaint(kProto + std::string(many, ')')), "nests too deeply"));
  CHECK(says(complaint(kProto + ")" + std::string(many, '\x85')), "more opcodes than any tensor needs"));
  CHECK(says(complaint(kProto + ")" + std::string(many, '\x94')), "more opcodes than any tensor needs"));
}

TEST_CASE("values that are not where they belong are refused") {
  CHECK(says(complaint(""), "needs 1 more bytes"));
  CHECK(says(complaint("PK\x03\x04"), "not a pickle of protocol 4"));
  CHECK(says(complaint(byte(0x80) + byte(5) + kNone + kStop), "pickle protocol 5"));
  CHECK(says(complaint(file_of("")), "empty stack"));
  CHECK(says(complaint(file_of(kNone)), "found None where a quantised weight belongs"));
  CHECK(says(complaint(file_of(kNone + kNone)), "more than one value"));
  CHECK(says(complaint(file_of(kNone + kMark)), "empty stack"));
  CHECK(says(complaint(file_of("t")), "never opened"));
  CHECK(says(complaint(file_of(kEmptyDict + kMark + kNone + kSetItems)), "a key but no value"));
  CHECK(says(complaint(file_of(kNone + kNone + kBuild)), "sets the state of None"));
  CHECK(says(complaint(file_of(kNone + kMark + kBuild)), "empty stack"));
  CHECK(says(complaint(file_of(ArrayPieces{}.str()) + "x"), "1 bytes follow the end"));
  CHECK(says(complaint(file_of(ArrayPieces{}.bare())), "array without contents"));
  CHECK(says(complaint(file_of(ArrayPieces{}.str() + group("") + kBuild)), "twice"));
}

TEST_CASE("arrays of another type, order or version are refused by name") {
  const auto with = [](auto change) {
    ArrayPieces array;
    change(array);
    return complaint(file_of(array.str()));
  };
  CHECK(says(with([](auto& a) { a.dtype_argument = text("f8"); }), "dtype \"f8\" is not float32"));
  CHECK(says(with([](auto& a) { a.dtype_argument = text("O"); }), "dtype \"O\""));
  CHECK(says(with([](auto& a) { a.dtype_argument = text("i1"); }), "24 bytes does not have the size"));
  CHECK(says(with([](auto& a) { a.dtype_argument = global("numpy", "ndarray"); }), "unknown class"));
  CHECK(says(with([](auto& a) { a.order = ">"; }), "byte order \">\""));
  CHECK(says(with([](auto& a) { a.order = "|"; }), "byte order \"|\""));
  CHECK(says(with([](auto& a) { a.fortran = kTrue; }), "Fortran order"));
  CHECK(says(with([](auto& a) { a.fortran = kNone; }), "found None where a boolean"));
  CHECK(says(with([](auto& a) { a.version = integer(2); }), "unknown version"));
  CHECK(says(with([](auto& a) { a.contents = text("x"); }), "found a string where bytes"));
  CHECK(says(with([](auto& a) { a.shape = kNone; }), "found None where a tuple"));
  CHECK(says(with([](auto& a) { a.contents += kNone; }), "incomplete state"));
}

TEST_CASE("quantised weights with other members or types are refused") {
  const std::string w = int8_array().str(), s = bf16_array().str();
  CHECK(says(complaint(file_of(quantized(s, w))), "weight: dtype is bf16, not i8"));
  CHECK(says(complaint(file_of(quantized(w, w))), "scales: dtype is i8, not bf16"));
  CHECK(says(complaint(file_of(quantized(w, kNone))), "found None where an array"));
  CHECK(says(complaint(file_of(quantized(int8_array().bare(), s))), "weight: array without contents"));
  CHECK(says(complaint(file_of(quantized_of(text("weight") + w))), "without weight or scales"));
  CHECK(says(complaint(file_of(quantized_of(text("weight") + w + text("weight") + w))), "unexpected member"));
  CHECK(says(complaint(file_of(quantized_of(text("zeros") + w))), "unexpected member \"zeros\""));
  CHECK(says(complaint(file_of(quantized_of(integer(1) + w))), "found an integer where a string"));
  CHECK(says(complaint(file_of(int8_array().str())), "plain array: dtype is i8, not f32"));
  CHECK(says(complaint(file_of(global("__main__", "QuantizedWeight8bit") + kEmptyTuple + kNewObject)),
             "without contents"));
}

TEST_CASE("no prefix of a tensor's file is taken for a tensor") {
  const std::string folder = GROKD_CHECKPOINT_DIR "/tiny-a/ckpt-0/";
  for (const std::string name : {"tensor00001_000", "tensor00005_000"}) {
    const std::string file = read_file(folder + name);
    REQUIRE(read(file).weight.present());
    for (std::size_t size = 0; size < file.size(); ++size) CHECK(complaint(file.substr(0, size)) != "");
  }
}

TEST_CASE("a changed byte gives a tensor or a complaint, never views outside the file") {
  const std::string whole = file_of(quantized(int8_array().str(), bf16_array().str()));
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bits : {0x01, 0x10, 0x80, 0xff}) {
      std::string file = whole;
      file[at] = static_cast<char>(file[at] ^ bits);
      try {
        const PickledTensor tensor = read(file);
        for (const TensorView& view : {tensor.weight, tensor.scales}) {
          if (!view.present()) continue;
          CHECK(reinterpret_cast<const char*>(view.data) >= file.data());
          CHECK(reinterpret_cast<const char*>(view.data) + view.bytes() <= file.data() + file.size());
        }
      } catch (const PickleError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

// Headers of safetensors files: what is read, and what is refused.

#include "engine/checkpoint/safetensors_file.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

std::string file_of(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, '\x01');
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string refusal(const std::string& file) {
  return message_of<FileFormatError>([&] { read_safetensors(bytes_of(file)); });
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& type = "F32") {
  return "\"" + name + "\": {\"dtype\": \"" + type + "\", \"shape\": " + shape +
         ", \"data_offsets\": " + offsets + "}";
}

}  // namespace

TEST_CASE("arrays of a safetensors file lie where its header says") {
  const std::string file =
      file_of("{\"__metadata__\": {\"format\": \"pt\"}, " + tensor("b", "[2, 3]", "[8, 20]", "BF16") + ", " +
                  tensor("a", "[2]", "[0, 8]") + ", " + tensor("c", "[4]", "[20, 24]", "U8") + "}",
              24);
  const auto tensors = read_safetensors(bytes_of(file));
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[1].view.shape == std::vector<std::int64_t>{2, 3});
  CHECK(tensors[1].view.dtype == DType::bf16);
  CHECK(tensors[1].view.data == bytes_of(file).data() + file.size() - 16);
  CHECK_FALSE(tensors[2].usable);
  CHECK(tensors[2].type == "U8");
}

TEST_CASE("damaged and hostile headers of safetensors files are refused") {
  CHECK(refusal("") == "is too short for a header");
  CHECK(refusal(std::string(8, '\xff')) == "its header is said to have 18446744073709551615 bytes");
  CHECK(refusal(std::string("\x40\0\0\0\0\0\0\0{}", 10)) == "ends within its header");
  CHECK(refusal(file_of("{\"a\": ", 0)) == "the header is not valid JSON");
  CHECK(refusal(file_of("[]", 0)) == "the header is no JSON object");
  CHECK(refusal(file_of("{}", 0)) == "holds no tensors");
  CHECK(refusal(file_of("{\"a\": " + std::string(1 << 20, '['), 0)) == "the header is nested too deep");
  CHECK(refusal(file_of("{" + tensor("a", "[2]", "[0, 8]") + "}", 4)) ==
        "a: ends beyond the file, which is cut off");
  CHECK(refusal(file_of("{" + tensor("a", "[2]", "[0, 8]") + "}", 9)) ==
        "there are bytes that belong to no tensor");
  CHECK(refusal(file_of("{" + tensor("a", "[2]", "[0, 8]") + "," + tensor("b", "[2]", "[4, 12]") + "}",
                        12)) == "b: overlaps another tensor");
  CHECK(refusal(file_of("{" + tensor("a", "[2]", "[0, 8]") + "," + tensor("b", "[1]", "[12, 16]") + "}",
                        16)) == "b: has a gap before it");
  CHECK(refusal(file_of("{" + tensor("a", "[3]", "[0, 8]") + "}", 8)) ==
        "a: its shape and its data_offsets disagree");
  CHECK(refusal(file_of("{" + tensor("a", "[281474976710656, 281474976710656]", "[0, 8]") + "}", 8)) ==
        "a: its shape and its data_offsets disagree");
  CHECK(refusal(file_of("{" + tensor("a", "[-1]", "[0, 8]") + "}", 8)) == "a: no sane shape");
  CHECK(refusal(file_of("{" + tensor("a", "[2]", "[8, 0]") + "}", 8)) == "a: no sane data_offsets");
}

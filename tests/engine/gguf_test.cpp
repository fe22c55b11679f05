// Headers of GGUF files: what is read, and what is refused.

#include "engine/checkpoint/gguf_file.h"

#include <doctest/doctest.h>

#include <fstream>

#include "engine/models/config.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

/// Puts a file together piece by piece.
struct Bytes {
  std::string data;
  template <class T>
  Bytes& add(T value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& text(const std::string& value) {
    add<std::uint64_t>(value.size());
    data += value;
    return *this;
  }
  Bytes& tensor(const std::string& name, std::vector<std::uint64_t> shape, std::uint32_t type,
                std::uint64_t offset) {
    text(name).add<std::uint32_t>(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t dimension : shape) add(dimension);
    return add(type).add(offset);
  }
  Bytes& contents(std::size_t bytes) {
    data.resize((data.size() + 31) / 32 * 32 + bytes, 'x');
    return *this;
  }
};

Bytes head(std::uint64_t tensors, std::uint64_t pairs) {
  Bytes bytes;
  bytes.data = "GGUF";
  return bytes.add<std::uint32_t>(3).add(tensors).add(pairs);
}

GgufFile read(const Bytes& bytes) {
  return read_gguf({reinterpret_cast<const std::byte*>(bytes.data.data()), bytes.data.size()});
}

std::string refusal(const Bytes& bytes) {
  return message_of<FileFormatError>([&] { read(bytes); });
}

}  // namespace

TEST_CASE("values and arrays of a GGUF file are found behind strings, numbers and lists") {
  Bytes file = head(2, 4);
  file.text("name").add<std::uint32_t>(8).text("x");
  file.text("count").add<std::uint32_t>(4).add<std::uint32_t>(7);
  file.text("list").add<std::uint32_t>(9).add<std::uint32_t>(8).add<std::uint64_t>(2).text("a").text("bc");
  file.text("half").add<std::uint32_t>(6).add(0.5f);
  file.tensor("q", {32, 2}, 8, 0).tensor("odd", {4}, 2, 96).contents(128);
  const GgufFile gguf = read(file);
  CHECK(std::get<std::string>(gguf.metadata.at("name")) == "x");
  CHECK(std::get<std::int64_t>(gguf.metadata.at("count")) == 7);
  CHECK(std::get<double>(gguf.metadata.at("half")) == 0.5);
  CHECK(gguf.metadata.count("list") == 0);
  REQUIRE(gguf.tensors.size() == 2);
  CHECK(gguf.tensors[0].view.shape == std::vector<std::int64_t>{2, 32});
  CHECK(gguf.tensors[0].view.bytes() == 68);
  CHECK(*reinterpret_cast<const char*>(gguf.tensors[0].view.data) == 'x');
  CHECK_FALSE(gguf.tensors[1].usable);
  CHECK(gguf.tensors[1].type == "number 2");
}

TEST_CASE("damaged and hostile headers of GGUF files are refused") {
  CHECK(refusal({"GGML0000000000000000000000"}) == "is no GGUF file");
  CHECK(refusal(head(1, 0)) == "ends within its header");
  CHECK(refusal(head(std::uint64_t{1} << 60, 0)) == "lists more than a file can hold");
  CHECK(refusal(head(0, 1).add(~std::uint64_t{0})) == "has a string of 18446744073709551615 bytes");
  CHECK(refusal(head(0, 1).text("a").add<std::uint32_t>(99)) == "has a value of an unknown type");
  CHECK(refusal(head(0, 1).text("a").add<std::uint32_t>(9).add<std::uint32_t>(0).add(~std::uint64_t{0})) ==
        "ends within its header");
  CHECK(refusal(head(1, 0).tensor("t", {1 << 20, 1 << 20, 1 << 20}, 0, 0)) == "t: no sane shape");
  CHECK(refusal(head(1, 0).tensor("t", {4}, 0, 8).contents(16)) ==
        "t: ends beyond the file, which is cut off");
  CHECK(refusal(head(2, 0).tensor("t", {4}, 0, 0).tensor("u", {4}, 0, 8).contents(32)) ==
        "two tensors overlap");
}

TEST_CASE("a GGUF file without config.json describes its model; an unknown architecture is named") {
  const ModelConfig config = load_model_config(GROKD_VARIANT_DIR "/tiny-mixtral-gguf");
  CHECK(config.name == "tiny-mixtral");
  CHECK(config.model_type == "mixtral");
  CHECK(static_cast<float>(config.rms_norm_eps) == 1e-5f);
  CHECK(config.num_experts == 4);
  CHECK_FALSE(config.tied_embeddings);
  const TempFolder folder;
  const Bytes file = head(0, 1).text("general.architecture").add<std::uint32_t>(8).text("mamba");
  std::ofstream(folder.path() + "/m.gguf") << file.data;
  const std::string said = message_of<ConfigError>([&] { load_model_config(folder.path()); });
  CHECK(said == folder.path() + "/m.gguf: general.architecture: \"mamba\" is not known (known: grok, llama)");
}

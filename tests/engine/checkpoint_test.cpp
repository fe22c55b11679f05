#include "engine/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <cstring>

#include "engine/checkpoint/load_rules.h"
#include "engine/checkpoint/tensor_table.h"
#include "engine/checkpoint/xai_checkpoint.h"
#include "engine/checkpoint/xai_writer.h"
#include "tests/support/pickle_pieces.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;
namespace fs = std::filesystem;

namespace {

const std::string kTinyA = GROKD_CHECKPOINT_DIR "/tiny-a";
const std::string kLayer1 = "transformer/decoder_layer_1/";

std::unique_ptr<Checkpoint> open(const std::string& dir) {
  return open_checkpoint(dir, load_model_config(dir));
}

/// A copy of tiny-a whose files may be spoilt.
struct Copy {
  TempFolder folder;
  Copy() { fs::copy(kTinyA, folder.path(), fs::copy_options::recursive); }
  std::string file(std::size_t index) const { return folder / ("ckpt-0/" + xai_file_name(index)); }
  std::string complaint() const {
    const std::string message = message_of<ConfigError>([&] { open(folder.path()); });
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
};

bool says(const std::string& message, const std::string& part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every tensor of the golden and demo checkpoints is found with its shape") {
  for (const std::string& dir :
       {kTinyA, std::string(GROKD_CHECKPOINT_DIR "/tiny-b"), std::string(GROKD_CHECKPOINT_DIR "/tiny-c"),
        std::string(GROKD_DEMO_MODEL)}) {
    const ModelConfig config = load_model_config(dir);
    const auto checkpoint = open_checkpoint(dir, config);
    CHECK(checkpoint->tensors().size() == static_cast<std::size_t>(2 + 12 * config.num_layers));
    const std::int64_t e = config.emb_size, f = config.ffn_size, x = config.num_experts;
    const CheckpointTensor& down = checkpoint->get(kLayer1 + "moe/linear_1/w");
    CHECK(down.weight.shape == std::vector<std::int64_t>{x, f, e});
    CHECK(down.weight.dtype == DType::i8);
    CHECK(down.scales.shape == std::vector<std::int64_t>{x, config.scale_groups, e});
    CHECK(down.scales.dtype == DType::bf16);
    const CheckpointTensor& router = checkpoint->get(kLayer1 + "router/w");
    CHECK(router.weight.shape == std::vector<std::int64_t>{e, x});
    CHECK(router.weight.dtype == DType::f32);
    CHECK_FALSE(router.scales.present());
  }
}

TEST_CASE("layer ten of a twelve layer model lies in the third group of files") {
  const auto checkpoint = open(GROKD_CHECKPOINT_DIR "/tiny-c");
  CHECK(says(checkpoint->get("transformer/decoder_layer_10/moe/linear/w").file, "tensor00026_000"));
  CHECK(says(checkpoint->get("transformer/decoder_layer_2/moe/linear/w").file, "tensor00050_000"));
}

TEST_CASE("a tensor stays readable after its pages were dropped") {
  const auto checkpoint = open(kTinyA);
  const CheckpointTensor& tensor = checkpoint->get(kLayer1 + "moe/linear/w");
  std::string before(tensor.weight.bytes(), '\0'), after = before;
  std::memcpy(before.data(), tensor.weight.data, before.size());
  CHECK(static_cast<signed char>(before[0]) == -128);  // the maker puts both ends of the range first
  CHECK(static_cast<signed char>(before[1]) == 127);
  checkpoint->done_with(tensor);
  std::memcpy(after.data(), tensor.weight.data, after.size());
  CHECK(before == after);
}

TEST_CASE("a tensor that the checkpoint does not have is named") {
  const auto checkpoint = open(kTinyA);
  const std::string message = message_of<ConfigError>([&] { checkpoint->get("transformer/nothing"); });
  CHECK(says(message, "tiny-a/ckpt-0: has no tensor transformer/nothing"));
}

TEST_CASE("missing files are counted and the first is named") {
  const Copy copy;
  fs::remove(copy.file(5));
  fs::remove(copy.file(7));
  CHECK(copy.complaint() == copy.file(5) +
                                ": missing (transformer/decoder_layer_0/multi_head_attention/key/w); " +
                                "2 of 26 tensor files are missing");
}

TEST_CASE("a file more than the configuration describes is refused") {
  const Copy copy;
  fs::copy_file(copy.file(25), copy.file(26));
  CHECK(says(copy.complaint(), "tensor00026_000: one file too many, config.json describes 26 tensors"));
}

TEST_CASE("damaged files are named with their tensor") {
  const Copy copy;
  const std::string name = copy.file(13) + ": transformer/decoder_layer_0/router/w: ";
  const auto with = [&](const std::string& contents) {
    write_file(copy.file(13), contents);
    return copy.complaint();
  };
  CHECK(with("") == copy.file(13) + ": the file is empty");
  CHECK(says(with("x"), name + "byte 0: not a pickle of protocol 4"));
  CHECK(says(with(file_of(global("os", "system"))), name + "byte 14: refers to \"os.system\""));
  CHECK(with(file_of(ArrayPieces{}.str())) == name + "weight has shape [2, 3], config.json asks for [64, 4]");
  CHECK(says(with(file_of(quantized(int8_array().str(), bf16_array().str()))), name + "weight has shape"));
  CHECK(says(with(read_file(copy.file(12))), name + "weight has shape [64]"));
  fs::remove(copy.file(13));
  fs::create_directory(copy.file(13));
  CHECK(says(copy.complaint(), "tensor00013_000: not a regular file"));
}

TEST_CASE("plain and quantised tensors in each other's place are refused") {
  const Copy copy;
  const auto checkpoint = open(kTinyA);
  TensorView wide = checkpoint->get("language_model/in_out_embed/embeddings").weight;
  wide.shape = {64, 32};
  write_xai_tensor(copy.file(5), array_source(wide), std::nullopt);
  CHECK(says(copy.complaint(), "is a plain float32 array where int8 with scales belongs"));
  fs::copy_file(kTinyA + "/ckpt-0/" + xai_file_name(5), copy.file(5), fs::copy_options::overwrite_existing);
  const CheckpointTensor& key = checkpoint->get("transformer/decoder_layer_0/multi_head_attention/key/w");
  TensorView small = key.weight;
  small.shape = {64, 4};
  write_xai_tensor(copy.file(13), array_source(small), array_source(key.scales));
  CHECK(says(copy.complaint(), "is int8 with scales where a plain float32 array belongs"));
}

TEST_CASE("wrong scales are told from wrong weights") {
  const Copy copy;
  const auto checkpoint = open(kTinyA);
  const CheckpointTensor& key = checkpoint->get("transformer/decoder_layer_0/multi_head_attention/key/w");
  TensorView scales = key.scales;
  scales.shape = {2, 16};
  write_xai_tensor(copy.file(5), array_source(key.weight), array_source(scales));
  CHECK(says(copy.complaint(), "key/w: scales has shape [2, 16], config.json asks for [1, 32]"));
}

TEST_CASE("files in another order are noticed where shapes differ") {
  const Copy copy;
  fs::rename(copy.file(2), copy.folder / "other");
  fs::rename(copy.file(3), copy.file(2));
  fs::rename(copy.folder / "other", copy.file(3));
  CHECK(
      says(copy.complaint(), "tensor00002_000: transformer/decoder_layer_0/moe/linear/w: weight has shape"));
}

TEST_CASE("a folder without a checkpoint is refused with the known forms") {
  const TempFolder folder;
  const ModelConfig config = load_model_config(kTinyA);
  const auto complaint = [&] {
    return message_of<ConfigError>([&] { open_checkpoint(folder.path(), config); });
  };
  CHECK(says(complaint(), "ckpt-0: no such checkpoint folder"));
  fs::create_directory(folder / "ckpt-0");
  CHECK(says(complaint(), "ckpt-0: holds no checkpoint of a known form (known: xAI's"));
}

TEST_CASE("an architecture without a tensor table is refused") {
  ModelConfig config = preset_config("small");
  config.model_type = "grok-7";
  CHECK(says(message_of<ConfigError>([&] { tensor_table(config); }), "unknown model_type \"grok-7\"; known: grok-1, "));
}

TEST_CASE("Grok-1 has 770 tensors in the string order of its layers") {
  const std::vector<TensorSpec> table = tensor_table(preset_config("grok-1"));
  REQUIRE(table.size() == 770);
  CHECK(table[0].path == "language_model/in_out_embed/embeddings");
  CHECK(table[0].weight == std::vector<std::int64_t>{131072, 6144});
  CHECK(table[1].path == "language_model/rms_norm/scale");
  CHECK(table[2].path == "transformer/decoder_layer_0/moe/linear/w");
  CHECK(table[2].weight == std::vector<std::int64_t>{8, 6144, 32768});
  CHECK(table[2].scales == std::vector<std::int64_t>{8, 1, 32768});
  CHECK(table[3].scales == std::vector<std::int64_t>{8, 8, 6144});
  CHECK(table[6].path == "transformer/decoder_layer_0/multi_head_attention/linear/w");
  CHECK(table[6].scales == std::vector<std::int64_t>{8, 6144});
  CHECK(table[13].path == "transformer/decoder_layer_0/router/w");
  CHECK(table[13].weight == std::vector<std::int64_t>{6144, 8});
  CHECK(table[14].path == "transformer/decoder_layer_1/moe/linear/w");
  CHECK(table[26].path == "transformer/decoder_layer_10/moe/linear/w");
  CHECK(table[769].path == "transformer/decoder_layer_9/router/w");
  const auto plain_order = [](const TensorSpec& a, const TensorSpec& b) { return a.path < b.path; };
  CHECK(std::is_sorted(table.begin(), table.end(), plain_order));
}

TEST_CASE("load rules rename by the first pattern found and leave out what is excluded") {
  const LoadRules rules{
      .rename = {{R"(decoder_layer_(\d+)/router)", R"(block_\1/$gate)"}, {"router", "never"}},
      .exclude = {"rms_norm_3/", "^language"}};
  CHECK(stored_path(rules, "transformer/decoder_layer_12/router/w") == "transformer/block_12/$gate/w");
  CHECK(stored_path(rules, "router/w") == "never/w");
  CHECK(stored_path(rules, "moe/linear/w") == "moe/linear/w");
  CHECK_FALSE(stored_path(rules, "transformer/decoder_layer_0/rms_norm_3/scale"));
  CHECK_FALSE(stored_path(rules, "language_model/rms_norm/scale"));
  CHECK(says(message_of<ConfigError>([] { stored_path({.exclude = {"("}}, "x"); }), "load rule \"(\": "));
}

TEST_CASE("renamed parameters come from the other file and excluded ones are absent") {
  const ModelConfig config = load_model_config(kTinyA);
  const auto checkpoint = open_checkpoint(
      kTinyA, config,
      {.rename = {{"decoder_layer_1/router", "decoder_layer_0/router"}}, .exclude = {"layer_0/"}});
  CHECK(checkpoint->tensors().size() == 14);
  CHECK(says(checkpoint->get(kLayer1 + "router/w").file, "tensor00013_000"));
  CHECK(message_of<ConfigError>([&] { checkpoint->get("transformer/decoder_layer_0/router/w"); }) != "");
  const LoadRules wrong{.rename = {{"router", "gate"}}};
  CHECK(says(message_of<ConfigError>([&] { open_checkpoint(kTinyA, config, wrong); }),
             "has no tensor transformer/decoder_layer_0/gate/w (renamed from"));
}

TEST_CASE("a tensor that is read and written again gives the same file as Python made") {
  const TempFolder folder;
  for (const std::string& dir :
       {kTinyA, std::string(GROKD_CHECKPOINT_DIR "/tiny-b"), std::string(GROKD_CHECKPOINT_DIR "/tiny-c"),
        std::string(GROKD_DEMO_MODEL)}) {
    const auto checkpoint = open(dir);
    for (const CheckpointTensor& tensor : checkpoint->tensors()) {
      std::optional<ArraySource> scales;
      if (tensor.scales.present()) scales = array_source(tensor.scales);
      write_xai_tensor(folder / "copy", array_source(tensor.weight), scales);
      CHECK_MESSAGE(read_file(folder / "copy") == read_file(tensor.file), tensor.file);
    }
  }
}

TEST_CASE("files of Grok-1's shapes have the sizes of xAI's files") {
  const auto size = [](const ArraySource& weight, const std::optional<ArraySource>& scales) {
    return write_xai_tensor("/dev/null", weight, scales);
  };
  const auto array = [](DType type, std::vector<std::int64_t> shape) {
    return ArraySource{type, std::move(shape), [](std::uint64_t, std::span<std::byte>) {}};
  };
  const auto quantised = [&](std::vector<std::int64_t> weight, std::vector<std::int64_t> scales) {
    return size(array(DType::i8, std::move(weight)), array(DType::bf16, std::move(scales)));
  };
  CHECK(size(array(DType::f32, {131072, 6144}), std::nullopt) == 3'221'225'637);
  CHECK(size(array(DType::f32, {6144}), std::nullopt) == 24'727);
  CHECK(size(array(DType::f32, {6144, 8}), std::nullopt) == 196'770);
  CHECK(quantised({6144, 1024}, {1, 1024}) == 6'293'814);
  CHECK(quantised({6144, 6144}, {1, 6144}) == 37'761'334);
  CHECK(quantised({6144, 6144}, {8, 6144}) == 37'847'359);
  CHECK(quantised({8, 6144, 32768}, {8, 1, 32768}) == 1'611'137'347);
  CHECK(quantised({8, 32768, 6144}, {8, 8, 6144}) == 1'611'399'491);
}

TEST_CASE("frames are cut where Python cuts them") {
  // Sizes that Python's pickle module gives for float32 arrays around the frame's 64 KiB.
  const auto size = [](std::int64_t count) {
    return write_xai_tensor("/dev/null", {DType::f32, {count}, [](std::uint64_t, std::span<std::byte>) {}},
                            std::nullopt);
  };
  CHECK(size(16340) == 65'511);
  CHECK(size(16350) == 65'551);
  CHECK(size(16383) == 65'683);
  CHECK(size(16384) == 65'696);
}

TEST_CASE("a file that cannot be written is named") {
  const ArraySource array{DType::f32, {3}, [](std::uint64_t, std::span<std::byte>) {}};
  CHECK(says(message_of<ConfigError>([&] { write_xai_tensor("/nonexistent/x", array, std::nullopt); }),
             "/nonexistent/x: cannot be written: No such file"));
  if (fs::exists("/dev/full")) {
    CHECK(says(message_of<ConfigError>([&] { write_xai_tensor("/dev/full", array, std::nullopt); }),
               "/dev/full: cannot be written: No space left"));
  }
}

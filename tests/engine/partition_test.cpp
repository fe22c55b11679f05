#include "engine/partition.h"

#include <doctest/doctest.h>

#include "engine/checkpoint/tensor_table.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

using Shape = std::vector<std::int64_t>;

const std::string kLayer = "transformer/decoder_layer_17/";

}  // namespace

TEST_CASE("every one of Grok-1's 770 tensors has a partition rule that names its dimensions") {
  const auto table = tensor_table(preset_config("grok-1"));
  CHECK(table.size() == 770);
  for (const TensorSpec& tensor : table) {
    CAPTURE(tensor.path);
    CHECK(partition_spec(tensor.path).size() == tensor.weight.size());
  }
}

TEST_CASE("matrices are cut by heads and by the experts' width, the rest is whole on every rank") {
  CHECK(spec_text(partition_spec(kLayer + "multi_head_attention/query/w")) == "P(None, model)");
  CHECK(spec_text(partition_spec(kLayer + "multi_head_attention/key/w")) == "P(None, model)");
  CHECK(spec_text(partition_spec(kLayer + "multi_head_attention/linear/w")) == "P(model, None)");
  CHECK(spec_text(partition_spec(kLayer + "moe/linear/w")) == "P(None, None, model)");
  CHECK(spec_text(partition_spec(kLayer + "moe/linear_1/w")) == "P(None, model, None)");
  CHECK(spec_text(partition_spec(kLayer + "rms_norm_2/scale")) == "P(None)");
  CHECK(spec_text(partition_spec("language_model/in_out_embed/embeddings")) == "P(None, None)");
}

TEST_CASE("a parameter that no rule knows is refused by name") {
  CHECK(message_of<ConfigError>([] { partition_spec("transformer/decoder_layer_0/bias"); }) ==
        "no partition rule for the parameter transformer/decoder_layer_0/bias");
}

TEST_CASE("slices follow the mesh: inputs take their scale groups along, the data axis only repeats") {
  const auto down = partition_spec(kLayer + "moe/linear_1/w");
  CHECK(slice_shape({8, 32768, 6144}, down, {1, 8}) == Shape{8, 4096, 6144});
  CHECK(slice_shape({8, 8, 6144}, down, {1, 8}) == Shape{8, 1, 6144});
  CHECK(slice_shape({8, 1, 6144}, down, {1, 8}) == Shape{8, 1, 6144});
  const auto up = partition_spec(kLayer + "moe/linear_v/w");
  CHECK(slice_shape({8, 6144, 32768}, up, {4, 2}) == Shape{8, 6144, 16384});
  CHECK(slice_shape({8, 1, 32768}, up, {1, 2}) == Shape{8, 1, 16384});
}

TEST_CASE("the slices of all ranks together are the tensors that are cut") {
  const ModelConfig config = preset_config("grok-1");
  std::int64_t whole = 0, cut = 0;
  for (const TensorSpec& tensor : tensor_table(config)) {
    if (!tensor.quantized()) continue;
    std::int64_t elements = 1, slice = 1;
    for (const auto n : tensor.weight) elements *= n;
    for (const auto n : slice_shape(tensor.weight, partition_spec(tensor.path), {1, 8})) slice *= n;
    whole += elements, cut += 8 * slice;
  }
  CHECK(whole == cut);
}

TEST_CASE("a mesh that cuts a scale group or a key-value head is refused with the possible degrees") {
  const ModelConfig grok = preset_config("grok-1"), small = preset_config("small");
  CHECK(model_degrees(grok) == std::vector<int>{1, 2, 4, 8});
  CHECK(model_degrees(small) == std::vector<int>{1, 2});
  check_mesh(grok, {3, 8});
  CHECK(message_of<ConfigError>([&] {
          check_mesh(grok, {1, 16});
        }) ==
        "tensor parallel 16 does not divide the 8 scale groups and 8 key-value heads of grok-1; possible: 1, "
        "2, 4, 8");
  CHECK(message_of<ConfigError>([&] { check_mesh(grok, {1, 3}); }).ends_with("possible: 1, 2, 4, 8"));
  CHECK(message_of<ConfigError>([&] { check_mesh(grok, {1, 0}); }).ends_with("possible: 1, 2, 4, 8"));
  CHECK(message_of<ConfigError>([&] { check_mesh(grok, {0, 1}); }) == "data parallel 0: at least 1");
}

#include <doctest/doctest.h>

#include <cmath>

#include "engine/checkpoint/synthetic_model.h"
#include "engine/models/weights.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

ModelConfig little() {
  ModelConfig config = preset_config("small");
  config.num_layers = 2;
  config.emb_size = 128;
  config.ffn_size = 256;
  config.vocab_size = 1024;
  config.embedding_multiplier = std::sqrt(128);
  return config;
}

double deviation(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += v, squares += double{v} * v;
  const double n = static_cast<double>(values.size()), mean = sum / n;
  return std::sqrt(squares / n - mean * mean);
}

}  // namespace

TEST_CASE("a synthetic model opens with the configuration it was made from") {
  const TempFolder folder;
  write_synthetic_model(little(), folder.path(), 1, {});
  const ModelConfig config = load_model_config(folder.path());
  CHECK(config.emb_size == 128);
  const auto checkpoint = open_checkpoint(folder.path(), config);
  std::uint64_t bytes = 0;
  for (const CheckpointTensor& tensor : checkpoint->tensors())
    bytes += tensor.weight.bytes() + tensor.scales.bytes();
  CHECK(bytes == synthetic_model_bytes(config));
}

TEST_CASE("synthetic matrices have columns of about unit gain") {
  const TempFolder folder;
  write_synthetic_model(little(), folder.path(), 1, {});
  const auto checkpoint = open_checkpoint(folder.path(), little());
  const CheckpointTensor& tensor = checkpoint->get("transformer/decoder_layer_1/moe/linear/w");
  CHECK(deviation(widen(tensor.weight)) == doctest::Approx(36).epsilon(0.02));
  double scale = 0;
  const std::vector<float> scales = widen(tensor.scales);
  for (const float s : scales) scale += s / static_cast<double>(scales.size());
  CHECK(scale * 36 * std::sqrt(128) == doctest::Approx(1).epsilon(0.02));
  const CheckpointTensor& embeddings = checkpoint->get("language_model/in_out_embed/embeddings");
  CHECK(deviation(widen(embeddings.weight)) * std::sqrt(128) == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("the seed decides every byte") {
  const TempFolder one, same, other;
  write_synthetic_model(little(), one.path(), 7, {});
  write_synthetic_model(little(), same.path(), 7, {});
  write_synthetic_model(little(), other.path(), 8, {});
  for (const char* file : {"ckpt-0/tensor00000_000", "ckpt-0/tensor00001_000", "ckpt-0/tensor00003_000"}) {
    CHECK(read_file(one / file) == read_file(same / file));
    CHECK(read_file(one / file) != read_file(other / file));
  }
  CHECK(read_file(one / "ckpt-0/tensor00002_000") != read_file(one / "ckpt-0/tensor00004_000"));
}

TEST_CASE("a folder that holds a checkpoint is left as it is") {
  const TempFolder folder;
  write_synthetic_model(little(), folder.path(), 1, {});
  const std::string before = read_file(folder / "ckpt-0/tensor00000_000");
  const std::string message =
      message_of<ConfigError>([&] { write_synthetic_model(little(), folder.path(), 2, {}); });
  CHECK(message == (folder / "ckpt-0") + ": is not empty, nothing was written");
  CHECK(read_file(folder / "ckpt-0/tensor00000_000") == before);
}

TEST_CASE("a model larger than the disk is refused before it is written") {
  const TempFolder folder;
  ModelConfig config = preset_config("grok-1");
  config.num_layers = 4096;
  const std::string message =
      message_of<ConfigError>([&] { write_synthetic_model(config, folder.path(), 1, {}); });
  CHECK(message.find("the checkpoint needs 20164.4 GB, only") != std::string::npos);
}

TEST_CASE("progress of writing counts every tensor and byte") {
  const TempFolder folder;
  LoadProgress last;
  int calls = 0;
  write_synthetic_model(little(), folder.path(), 1, [&](const LoadProgress& p) { last = p, ++calls; });
  CHECK(calls == 26);
  CHECK(last.tensors_done == 26);
  CHECK(last.bytes_done == synthetic_model_bytes(little()));
  CHECK(last.bytes_done == last.bytes_total);
}

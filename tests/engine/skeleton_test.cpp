// A checkpoint with the true sizes of Grok-1 and nothing in it: 318 GB of holes.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "engine/checkpoint/tensor_table.h"
#include "engine/checkpoint/xai_checkpoint.h"
#include "engine/checkpoint/xai_writer.h"
#include "engine/memory_plan.h"
#include "engine/verify_model.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;
namespace fs = std::filesystem;

namespace {

/// Returns the sizes of the files.
std::vector<std::uint64_t> write_skeleton(const ModelConfig& config, const std::string& model_dir) {
  std::vector<std::uint64_t> sizes;
  fs::create_directories(fs::path(model_dir) / config.checkpoint);
  for (const TensorSpec& spec : tensor_table(config)) {
    const auto path = fs::path(model_dir) / config.checkpoint / xai_file_name(sizes.size());
    const ArraySource weight{spec.quantized() ? DType::i8 : DType::f32, spec.weight, {}};
    std::optional<ArraySource> scales;
    if (spec.quantized()) scales = ArraySource{DType::bf16, spec.scales, {}};
    sizes.push_back(write_xai_tensor(path.string(), weight, scales));
  }
  save_model_config(config, model_dir);
  return sizes;
}

std::uint64_t disk_bytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) == 0) bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

}  // namespace

TEST_CASE("a skeleton of Grok-1 has the sizes of the published files, opens, is verified and planned") {
  const TempFolder folder;
  const ModelConfig config = preset_config("grok-1");
  const auto sizes = write_skeleton(config, folder.path());
  REQUIRE(sizes.size() == 770);
  // The published sizes: embedding, norm, then the first layer's tensors in the order of the files.
  const std::vector<std::uint64_t> published{3221225637, 24727,    1611137347, 1611399491, 1611137347,
                                             6293814,    37847359, 37761334,   6293814,    24727,
                                             24727,      24727,    24727,      196770};
  CHECK(std::vector<std::uint64_t>(sizes.begin(), sizes.begin() + 14) == published);
  for (std::size_t i = 14; i < sizes.size(); ++i) CHECK(sizes[i] == sizes[i - 12]);
  CHECK(disk_bytes(folder.path()) < 64'000'000);

  const VerifyReport report =
      verify_model(folder.path(), load_model_config(folder.path()), {.structure_only = true}, {});
  CHECK(report.form == "checkpoint of 770 tensors");
  CHECK(report.problems.empty());
  CHECK(report.bytes == doctest::Approx(318.2e9).epsilon(0.001));

  // One byte a code here and there; scales are f32 with a column sum beside them here, embeddings are there
  // twice.
  const std::size_t planned = weight_bytes(load_model_config(folder.path()));
  CHECK(static_cast<double>(planned) == doctest::Approx(318.2e9 + 1.6e9).epsilon(0.005));
}

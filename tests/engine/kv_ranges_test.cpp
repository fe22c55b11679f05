#include "engine/kv_ranges.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "engine/calibrate_kv.h"
#include "engine/model_files.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

const std::string kModel = GROKD_CHECKPOINT_DIR "/tiny-a";

/// Rewrites kv-int8.json of `folder` and tells why it is refused.
std::string refusal_after(const TempFolder& folder, const std::string& from, const std::string& to) {
  const ModelConfig config = load_model_config(kModel);
  KvRangeTable table(config);
  std::fill(table.keys.begin(), table.keys.end(), 0.5f);
  std::fill(table.values.begin(), table.values.end(), 2.0f);
  save_kv_ranges(table, "01234567", folder.path());
  std::string text = read_file(folder / "kv-int8.json");
  text.replace(text.find(from), from.size(), to);
  write_file(folder / "kv-int8.json", text);
  return message_of<ConfigError>([&] { load_kv_ranges(folder.path(), config, "01234567"); });
}

}  // namespace

TEST_CASE("an int8 cache without calibrated ranges is refused, naming the file and the command") {
  RunnerOptions options;
  options.kv_type = kernels::KvType::int8;
  CHECK_THROWS_WITH_AS(
      load_model(kModel, load_model_config(kModel), options, {}),
      doctest::Contains("kv-int8.json: is missing; an int8 cache needs the ranges that `grokd calibrate`"),
      ConfigError);
}

TEST_CASE("ranges are read back with their bits") {
  const TempFolder folder;
  const ModelConfig config = load_model_config(kModel);
  KvRangeTable table(config);
  for (std::size_t i = 0; i < table.keys.size(); ++i) {
    table.keys[i] = 1.0f / static_cast<float>(i + 3);
    table.values[i] = 1e-20f * static_cast<float>(i + 7);
  }
  save_kv_ranges(table, "01234567", folder.path());
  const KvRangeTable back = load_kv_ranges(folder.path(), config, "01234567");
  CHECK(back.keys == table.keys);
  CHECK(back.values == table.values);
}

TEST_CASE("ranges of other weights, of another number, or that are no positive numbers are refused by name") {
  const TempFolder folder;
  const auto says = [&](const std::string& from, const std::string& to, const std::string& what) {
    const std::string message = refusal_after(folder, from, to);
    CAPTURE(message);
    CHECK(message.find("kv-int8.json: ") != std::string::npos);
    CHECK(message.find(what) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  says("01234567", "89abcdef", "calibrated for the weights 89abcdef, these are 01234567");
  says("0.5,", "", "keys has not one range a channel");
  says("2.0,", "-2.0,", "values has a range that is no positive number");
  says("2.0,", "0,", "values has a range that is no positive number");
  says("2.0,", "1e-45,", "values has a range that is no positive number");
  says("2.0,", "1e40,", "values has a range that is no positive number");
  says("grokd-kv-ranges-1", "other", "format");
  says("{", "", "");
}

TEST_CASE("windows longer than the context are cut, and an unused channel has range 1") {
  const ModelConfig config = load_model_config(kModel);
  RunnerOptions options;
  options.cpu = {1, "scalar", true};
  options.max_batch_tokens = 50;
  std::vector<TokenId> ids(static_cast<std::size_t>(config.sequence_len) + 10, 5);
  const KvRangeTable table = calibrate_kv(kModel, config, options, ids, ProgressSink{});
  CHECK(table.keys.size() ==
        static_cast<std::size_t>(config.num_layers * config.num_kv_heads * config.key_size));
  CHECK(std::all_of(table.keys.begin(), table.keys.end(), [](float range) { return range > 0; }));
}

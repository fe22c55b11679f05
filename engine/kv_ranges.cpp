#include "engine/kv_ranges.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace grokd {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "grokd-kv-ranges-1";

std::size_t size(int n) { return static_cast<std::size_t>(n); }

std::string ranges_path(const std::string& model_dir) {
  return (std::filesystem::path(model_dir) / kKvRangesFile).string();
}

std::vector<float> read_ranges(const json& document, const char* key, std::size_t count) {
  auto ranges = document.at(key).get<std::vector<float>>();
  if (ranges.size() != count) throw ConfigError(std::string(key) + " has not one range a channel");
  for (const float range : ranges) {
    if (!std::isnormal(range) || range < 0 || !std::isnormal(1 / range)) {
      throw ConfigError(std::string(key) + " has a range that is no positive number");
    }
  }
  return ranges;
}

KvRangeTable read_table(const json& document, const ModelConfig& config, const std::string& fingerprint) {
  if (document.at("format") != kFormat) throw ConfigError(std::string("its format is not ") + kFormat);
  if (const auto weights = document.at("weights").get<std::string>(); weights != fingerprint) {
    throw ConfigError("was calibrated for the weights " + weights + ", these are " + fingerprint);
  }
  KvRangeTable table(config);
  table.keys = read_ranges(document, "keys", table.keys.size());
  table.values = read_ranges(document, "values", table.values.size());
  return table;
}

}  // namespace

KvRangeTable::KvRangeTable(const ModelConfig& config)
    : layers(config.num_layers),
      kv_heads(config.num_kv_heads),
      head_size(config.key_size),
      keys(size(layers) * size(kv_heads) * size(head_size)),
      values(keys.size()) {}

KvRangeTable load_kv_ranges(const std::string& model_dir, const ModelConfig& config,
                            const std::string& fingerprint) {
  const std::string path = ranges_path(model_dir);
  std::ifstream file(path);
  if (!file) {
    throw ConfigError(path + ": is missing; an int8 cache needs the ranges that `grokd calibrate` writes");
  }
  try {
    return read_table(json::parse(file), config, fingerprint);
  } catch (const std::exception& error) {
    throw ConfigError(path + ": " + error.what());
  }
}

void save_kv_ranges(const KvRangeTable& table, const std::string& fingerprint, const std::string& model_dir) {
  const std::string path = ranges_path(model_dir);
  const nlohmann::ordered_json document = {
      {"format", kFormat}, {"weights", fingerprint}, {"keys", table.keys}, {"values", table.values}};
  std::ofstream file(path);
  file << document.dump() << '\n';
  file.close();
  if (!file) throw ConfigError(path + ": cannot be written");
}

DeviceKvRanges::DeviceKvRanges(kernels::Backend& backend, const KvRangeTable& table, int rank, int ranks)
    : channels_(size(table.kv_heads / ranks) * size(table.head_size)) {
  std::vector<float> all;
  const auto add = [&](const std::vector<float>& ranges, int layer, bool inverse) {
    const std::size_t first = (size(layer) * size(ranks) + size(rank)) * channels_;
    for (std::size_t i = first; i < first + channels_; ++i) {
      all.push_back(inverse ? 1.0f / ranges[i] : ranges[i]);
    }
  };
  for (int layer = 0; layer < table.layers; ++layer) {
    for (const auto* ranges : {&table.keys, &table.values}) {
      add(*ranges, layer, false);
      add(*ranges, layer, true);
    }
  }
  data_ = backend.allocate(all.size() * sizeof(float));
  backend.upload(data_.data(), all.data(), all.size() * sizeof(float));
}

kernels::KvRanges DeviceKvRanges::layer(int layer) const {
  if (channels_ == 0) return {};
  const float* at = data_.as<float>() + 4 * size(layer) * channels_;
  return {at, at + channels_, at + 2 * channels_, at + 3 * channels_};
}

std::size_t kv_range_bytes(int layers, int kv_heads, int head_size) {
  return 4 * sizeof(float) * size(layers) * size(kv_heads) * size(head_size);
}

}  // namespace grokd

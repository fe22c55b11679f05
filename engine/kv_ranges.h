#pragma once
// Calibrated ranges of an int8 KV cache (docs/numerics.md, section 5.3).

#include <string>
#include <vector>

#include "engine/models/config.h"
#include "kernels/backend.h"

namespace grokd {

/// In a model's folder.
inline constexpr const char* kKvRangesFile = "kv-int8.json";

/// The largest magnitude met in each channel of keys and values: [layers, KV heads, key size] each.
struct KvRangeTable {
  int layers = 0, kv_heads = 0, head_size = 0;
  std::vector<float> keys, values;

  explicit KvRangeTable(const ModelConfig& config);  // all 0
};

/// `fingerprint`: of the weights that the ranges must belong to. Throws ConfigError naming the file, and
/// `grokd calibrate` where it is missing.
KvRangeTable load_kv_ranges(const std::string& model_dir, const ModelConfig& config,
                            const std::string& fingerprint);
void save_kv_ranges(const KvRangeTable& table, const std::string& fingerprint, const std::string& model_dir);

/// One rank's heads of all layers on its device.
class DeviceKvRanges {
 public:
  DeviceKvRanges() = default;
  DeviceKvRanges(kernels::Backend& backend, const KvRangeTable& table, int rank, int ranks);
  kernels::KvRanges layer(int layer) const;

 private:
  kernels::Buffer data_;  // [layers][4][K of the rank, C]: keys, 1 / keys, values, 1 / values
  std::size_t channels_ = 0;
};

/// What they take on one device.
std::size_t kv_range_bytes(int layers, int kv_heads, int head_size);

}  // namespace grokd

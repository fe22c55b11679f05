#include "engine/checkpoint/synthetic_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <numbers>
#include <thread>

#include "engine/checkpoint/tensor_table.h"
#include "engine/checkpoint/xai_checkpoint.h"
#include "engine/checkpoint/xai_writer.h"
#include "engine/models/weights.h"

namespace grokd {
namespace {

namespace fs = std::filesystem;

/// Random words by position (SplitMix64's output function): any part of a tensor can be made on its own.
class RandomWords {
 public:
  RandomWords(std::uint64_t seed, std::uint64_t tensor, std::uint64_t stream)
      : key_(mix(mix(seed + kStep) + tensor * 2 + stream)) {}
  std::uint64_t operator()(std::uint64_t index) const { return mix(key_ + index * kStep); }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  std::uint64_t key_;
};

/// About normal with variance 1: the sum of four uniform 16-bit parts.
float unit_normal(std::uint64_t word) {
  const std::uint64_t sum = (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
  return (static_cast<float>(sum) / 65536.0F - 2.0F) * 1.7320508F;
}

constexpr double kInt8Deviation = 36;
using Int8Table = std::array<std::int8_t, 65536>;

/// 16 random bits -> int8 of a normal distribution with deviation 36, ends clipped.
Int8Table make_int8_table() {
  Int8Table table{};
  long start = 0;
  for (int value = -128; value <= 127; ++value) {
    const double below = 0.5 * std::erfc(-(value + 0.5) / kInt8Deviation / std::numbers::sqrt2);
    const long end = value == 127 ? 65536 : std::lround(65536 * below);
    std::fill(table.begin() + start, table.begin() + end, static_cast<std::int8_t>(value));
    start = end;
  }
  return table;
}

FillBytes int8_values(RandomWords words, const Int8Table& table) {
  return [words, &table](std::uint64_t offset, std::span<std::byte> out) {
    constexpr std::size_t kPerWord = 4;
    for (std::size_t i = 0; i < out.size(); i += kPerWord) {  // offsets are multiples of four
      std::uint64_t word = words((offset + i) / kPerWord);
      for (std::size_t j = i; j < std::min(i + kPerWord, out.size()); ++j, word >>= 16) {
        out[j] = static_cast<std::byte>(table[word & 0xffff]);
      }
    }
  };
}

template <class T>
FillBytes elements(std::function<T(std::uint64_t)> value) {
  return [value = std::move(value)](std::uint64_t offset, std::span<std::byte> out) {
    for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
      const T element = value(offset / sizeof(T) + i);
      std::memcpy(out.data() + i * sizeof(T), &element, sizeof(T));
    }
  };
}

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// How a plain tensor's values are made: mean + spread * normal, with a random sign if asked.
struct PlainValues {
  float mean = 0, spread = 1;
  bool random_sign = false;
};

struct PlainRule {
  std::string_view ending;
  PlainValues (*values)(const ModelConfig&);
};

float root(int x) { return std::sqrt(static_cast<float>(x)); }

// First match wins. Hidden states start with unit size and every branch adds 0.4; the final norm is scaled so
// that logits spread by 2.5, and has random signs, else the tied output matrix makes every token predict
// itself.
constexpr std::array<PlainRule, 6> kPlainRules = {{
    {"/embeddings",
     [](const ModelConfig& c) {
       return PlainValues{0, 1 / static_cast<float>(c.embedding_multiplier)};
     }},
    {"language_model/rms_norm/scale",
     [](const ModelConfig& c) {
       const double gain = 2.5 * c.embedding_multiplier / (root(c.emb_size) * c.output_multiplier);
       return PlainValues{static_cast<float>(gain), static_cast<float>(0.1 * gain), true};
     }},
    {"/rms_norm_1/scale",
     [](const ModelConfig&) {
       return PlainValues{0.4F, 0.1F};
     }},
    {"/rms_norm_3/scale",
     [](const ModelConfig&) {
       return PlainValues{0.4F, 0.1F};
     }},
    {"/router/w",
     [](const ModelConfig& c) {
       return PlainValues{0, 3 / root(c.emb_size)};
     }},
    {"/scale",
     [](const ModelConfig&) {
       return PlainValues{1, 0.1F};
     }},
}};

struct GainRule {
  std::string_view ending;
  float gain;
};

// Queries and keys a little larger, so that attention looks at something.
constexpr std::array<GainRule, 3> kGainRules = {{{"/query/w", 1.75F}, {"/key/w", 1.75F}, {"", 1}}};

template <class Rules>
const auto& rule_for(const Rules& rules, const std::string& path) {
  return *std::find_if(rules.begin(), rules.end(),
                       [&](const auto& rule) { return path.ends_with(rule.ending); });
}

ArraySource plain_source(const TensorSpec& spec, const ModelConfig& config, RandomWords words,
                         RandomWords signs) {
  const PlainValues v = rule_for(kPlainRules, spec.path).values(config);
  return {DType::f32, spec.weight, elements<float>([=](std::uint64_t i) {
            const float value = v.mean + v.spread * unit_normal(words(i));
            return v.random_sign && (signs(i) & 1) != 0 ? -value : value;
          })};
}

ArraySource scale_source(const TensorSpec& spec, RandomWords words) {
  const float inputs = static_cast<float>(spec.weight[spec.weight.size() - 2]);
  const float gain = rule_for(kGainRules, spec.path).gain;
  const float scale = gain / (static_cast<float>(kInt8Deviation) * std::sqrt(inputs));
  return {DType::bf16, spec.scales, elements<std::uint16_t>([=](std::uint64_t i) {
            return to_bf16(scale * (1 + 0.1F * unit_normal(words(i))));
          })};
}

void write_tensor(const TensorSpec& spec, std::size_t index, const std::string& folder,
                  const ModelConfig& config, std::uint64_t seed, const Int8Table& table) {
  const std::string path = (fs::path(folder) / xai_file_name(index)).string();
  const RandomWords words(seed, index, 0), more(seed, index, 1);
  if (spec.quantized()) {
    write_xai_tensor(path, {DType::i8, spec.weight, int8_values(words, table)}, scale_source(spec, more));
  } else {
    write_xai_tensor(path, plain_source(spec, config, words, more), std::nullopt);
  }
}

std::uint64_t spec_bytes(const TensorSpec& spec) {
  return array_bytes({spec.quantized() ? DType::i8 : DType::f32, spec.weight, {}}) +
         (spec.quantized() ? array_bytes({DType::bf16, spec.scales, {}}) : 0);
}

std::string gigabytes(std::uint64_t bytes) {
  std::string text = std::to_string(std::llround(static_cast<double>(bytes) / 1e8));
  if (text.size() < 2) text.insert(0, "0");
  return text.insert(text.size() - 1, ".") + " GB";
}

void prepare_folder(const ModelConfig& config, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ConfigError(folder + ": cannot be made: " + error.message());
  if (!fs::is_empty(folder)) throw ConfigError(folder + ": is not empty, nothing was written");
  const std::uint64_t needed = synthetic_model_bytes(config), space = fs::space(folder).available;
  if (space < needed) {
    throw ConfigError(folder + ": the checkpoint needs " + gigabytes(needed) + ", only " + gigabytes(space) +
                      " are free");
  }
}

}  // namespace

std::uint64_t synthetic_model_bytes(const ModelConfig& config) {
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : tensor_table(config)) bytes += spec_bytes(spec);
  return bytes;
}

void write_synthetic_model(const ModelConfig& config, const std::string& model_dir, std::uint64_t seed,
                           const ProgressSink& progress) {
  const std::string folder = (fs::path(model_dir) / config.checkpoint).string();
  prepare_folder(config, folder);
  const std::vector<TensorSpec> table = tensor_table(config);
  const Int8Table int8_table = make_int8_table();
  std::mutex mutex;  // guards done
  LoadProgress done{.tensors_total = table.size(), .bytes_total = synthetic_model_bytes(config)};
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < table.size(); ++i) {
    tasks.emplace_back([&, i] {
      write_tensor(table[i], i, folder, config, seed, int8_table);
      const std::lock_guard lock(mutex);
      done.tensors_done += 1;
      done.bytes_done += spec_bytes(table[i]);
      if (progress) progress(done);
    });
  }
  run_parallel(tasks, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  save_model_config(config, model_dir);
}

}  // namespace grokd

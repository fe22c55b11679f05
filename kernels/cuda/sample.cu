// sample (docs/numerics.md, sections 6 and 7): one block a row. Logits stay on the device.

#include <algorithm>
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/sample_steps.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr double kGreedyBelow = 1e-5;
constexpr double kUnit = 0x1p40;  // the weight of the largest

/// One row on its way.
struct Row {
  const float* x;
  float* y;
  int vocab;
  const SampleSettings& settings;
  const std::uint64_t* mask;  // null: all may be drawn
  SampleRoom room;

  __device__ bool allowed(int v) const { return mask == nullptr || (mask[v / 64] >> (v % 64) & 1) != 0; }
  template <class Join>
  __device__ U64 reduce(U64 value, Join join) const {
    return block_reduce(value, room.reduce, join, 0ull);
  }
};

/// Larger values first, then lower ids; 0 is below all.
__device__ U64 rank_of(float value, int id) {
  return static_cast<U64>(ordered(value)) << 32 | static_cast<unsigned>(~static_cast<unsigned>(id));
}
__device__ int id_of(U64 rank) { return static_cast<int>(~static_cast<unsigned>(rank)); }

/// The largest logit; *finite is false, and nothing else holds, where one is NaN or inf.
__device__ float largest_logit(const Row& row, bool* finite) {
  U64 best = 0, bad = 0;
  for (int v = thread(); v < row.vocab; v += threads()) {
    if (!isfinite(row.x[v])) bad = 1;
    const U64 rank = ordered(row.x[v]);
    if (rank > best) best = rank;
  }
  *finite = row.reduce(bad, Larger{}) == 0;
  return from_ordered(static_cast<unsigned>(row.reduce(best, Larger{})));
}

struct Logprobs {
  float largest;
  double log_total;

  __device__ float operator()(float x) const {
    return __double2float_rn(static_cast<double>(x - largest) - log_total);
  }
};

__device__ Logprobs logprobs_of(const Row& row, float largest) {
  U64 total = 0;
  for (int v = thread(); v < row.vocab; v += threads()) {
    row.y[v] = row.x[v];
    total += weight_of(row.x[v] - largest);
  }
  total = row.reduce(total, Plus{});
  return {largest, log_f64(static_cast<double>(total) * 0x1p-40)};
}

/// The best log-probabilities, each by one look at the row.
__device__ void write_top(const Row& row, const Logprobs& logprob, TokenLogprob* top, int count) {
  U64 bound = ~0ull;
  for (int n = 0; n < count; ++n) {
    U64 best = 0;
    for (int v = thread(); v < row.vocab; v += threads()) {
      const U64 rank = rank_of(logprob(row.x[v]), v);
      if (rank < bound && rank > best) best = rank;
    }
    bound = row.reduce(best, Larger{});
    if (thread() == 0) top[n] = {id_of(bound), from_ordered(static_cast<unsigned>(bound >> 32))};
  }
}

__device__ void adjust(const Row& row, const SampleJob& job) {
  const SampleSettings& s = row.settings;
  __syncthreads();
  for_each_token(job.biases + s.first_bias, s.biases,
                 [&](const LogitBias& bias) { row.y[bias.id] = row.y[bias.id] + bias.bias; });
  __syncthreads();
  if (s.penalised != 0) {
    for_each_token(job.counts + s.first_count, s.counts,
                   [&](const TokenCount& count) { apply_penalty(s, count, &row.y[count.id]); });
  }
  __syncthreads();
}

struct Choice {
  int id = -1, kept = 0;
};

__device__ Choice choose_greedy(const Row& row) {
  U64 best = 0, first = 0;
  for (int v = thread(); v < row.vocab; v += threads()) {
    if (!row.allowed(v)) continue;
    const U64 place = static_cast<U64>(row.vocab - v);  // the lowest id is the largest
    if (place > first) first = place;
    const U64 rank = rank_of(row.y[v], v);
    if (!isnan(row.y[v]) && rank > best) best = rank;
  }
  first = row.reduce(first, Larger{});
  best = row.reduce(best, Larger{});
  if (first == 0) return {};
  const int first_id = row.vocab - static_cast<int>(first);
  return {isnan(row.y[first_id]) ? first_id : id_of(best), 1};
}

/// Keys below it are dropped.
__device__ unsigned top_k_key(const Row& row) {
  U64 count = 0;
  for (int v = thread(); v < row.vocab; v += threads()) count += row.allowed(v) ? 1 : 0;
  count = row.reduce(count, Plus{});
  const int k = row.settings.top_k;
  if (k <= 0 || static_cast<U64>(k) >= count) return 0;
  const auto each = [&](int v) { return Weighed{ordered(row.y[v]), row.allowed(v) ? 1ull : 0ull}; };
  return key_at(each, row.vocab, static_cast<U64>(k), true, row.room);
}

/// What may be drawn after top-k, with its weights.
struct Survivors {
  const Row& row;
  unsigned lowest;
  float largest;

  __device__ bool has(int v) const { return row.allowed(v) && ordered(row.y[v]) >= lowest; }
  __device__ U64 weight(int v) const { return weight_of(row.y[v] - largest); }
};

__device__ unsigned top_p_key(const Row& row, const Survivors& survivors) {
  if (!(row.settings.top_p < 1)) return 0;
  U64 total = 0;
  for (int v = thread(); v < row.vocab; v += threads())
    total += survivors.has(v) ? survivors.weight(v) : 0ull;
  total = row.reduce(total, Plus{});
  const double wanted = ceil((1.0 - row.settings.top_p) * static_cast<double>(total));
  U64 target = total;
  if (wanted < 0x1p63 && static_cast<U64>(wanted) < total) target = static_cast<U64>(wanted);
  const auto each = [&](int v) {
    return Weighed{ordered(row.y[v]), survivors.has(v) ? survivors.weight(v) : 0ull};
  };
  return target == 0 ? 0u : key_at(each, row.vocab, target, false, row.room);
}

__device__ Choice choose_by_lot(const Row& row) {
  const SampleSettings& s = row.settings;
  const float temperature = static_cast<float>(s.temperature);
  U64 best = 0;
  for (int v = thread(); v < row.vocab; v += threads()) {
    row.y[v] = __fdiv_rn(row.y[v], temperature);
    const U64 rank = ordered(row.y[v]);
    if (row.allowed(v) && rank > best) best = rank;
  }
  best = row.reduce(best, Larger{});
  if (best == 0) return {};
  const Survivors survivors{row, top_k_key(row), from_ordered(static_cast<unsigned>(best))};
  const unsigned lowest = top_p_key(row, survivors);
  const double least = s.min_p * kUnit;
  U64 kept = 0, value = 0, place = 0;
  for (int v = thread(); v < row.vocab; v += threads()) {
    const float y = row.y[v];
    if (isnan(y) || !survivors.has(v) || ordered(y) < lowest) continue;
    if (s.min_p > 0 && !(static_cast<double>(survivors.weight(v)) >= least)) continue;
    ++kept;
    const U64 drawn = ordered(static_cast<double>(y) + gumbel(s, v));
    if (drawn <= value) continue;  // a thread sees rising ids: the first of equal ones stays
    value = drawn;
    place = static_cast<U64>(row.vocab - v);
  }
  const U64 largest = row.reduce(value, Larger{});
  place = row.reduce(value == largest ? place : 0ull, Larger{});
  kept = row.reduce(kept, Plus{});
  return {kept == 0 ? -1 : row.vocab - static_cast<int>(place), static_cast<int>(kept)};
}

__device__ SampleResult sample_row(const Row& row, const SampleJob& job) {
  const SampleSettings& s = row.settings;
  bool finite = true;
  const float largest = largest_logit(row, &finite);
  if (!finite) return {-1, 0, 0, 0};
  const Logprobs logprob = logprobs_of(row, largest);
  write_top(row, logprob, job.top + s.first_top, s.top);
  if (s.forced >= 0) return {s.forced, 0, 1, logprob(row.x[s.forced])};
  adjust(row, job);
  const Choice choice = s.temperature < kGreedyBelow ? choose_greedy(row) : choose_by_lot(row);
  return {choice.id, choice.kept, 1, choice.id < 0 ? 0.0f : logprob(row.x[choice.id])};
}

__global__ void __launch_bounds__(kMostThreads) sample_rows(SampleJob job) {
  SharedMemory shared;
  const auto reduce = shared.take<U64>(kReduceRoom), buckets = shared.take<U64>(kRadixBuckets);
  const SampleRoom room{reduce, buckets, shared.take<U64>(2)};
  const int r = static_cast<int>(blockIdx.x);
  const SampleSettings settings = job.settings[r];
  const Row row{job.logits + r * job.stride,
                job.working + static_cast<std::ptrdiff_t>(r) * job.vocab,
                job.vocab,
                settings,
                settings.first_mask_word < 0 ? nullptr : job.masks + settings.first_mask_word,
                room};
  const SampleResult result = sample_row(row, job);
  if (thread() == 0) job.results[r] = result;
}

/// The rows' settings and lists as one block of bytes: settings, masks, counts, biases.
struct SampleTable {
  std::size_t masks = 0, counts = 0, biases = 0, bytes = 0;  // where each begins
  int tops = 0;
};

SampleSettings settings_of(const SamplingRow& row) {
  SampleSettings s{};
  s.temperature = row.temperature;
  s.top_p = row.top_p;
  s.min_p = row.min_p;
  s.seed = row.seed;
  s.repetition = static_cast<float>(row.repetition_penalty);
  s.frequency = static_cast<float>(row.frequency_penalty);
  s.presence = static_cast<float>(row.presence_penalty);
  s.penalised = row.repetition_penalty != 1 || row.frequency_penalty != 0 || row.presence_penalty != 0;
  s.top_k = row.top_k;
  s.first_mask_word = -1;
  s.forced = row.forced;
  s.draw = row.draw;
  s.choice = row.choice;
  return s;
}

template <class T>
void append(std::vector<std::byte>& table, std::span<const T> list) {
  if (list.empty()) return;
  const std::size_t at = table.size();
  table.resize(at + list.size_bytes());
  std::memcpy(table.data() + at, list.data(), list.size_bytes());
}

SampleTable fill_table(std::vector<std::byte>& table, std::span<const SamplingRow> rows,
                       std::span<const SampledToken> out, int vocab) {
  SampleTable places;
  std::vector<SampleSettings> settings;
  settings.reserve(rows.size());
  int mask_words = 0, counts = 0, biases = 0;
  const int words = ceil_div(vocab, 64);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    SampleSettings s = settings_of(rows[r]);
    if (rows[r].mask != nullptr) s.first_mask_word = mask_words, mask_words += words;
    s.first_count = counts, s.counts = s.penalised != 0 ? static_cast<int>(rows[r].counts.size()) : 0;
    s.first_bias = biases, s.biases = static_cast<int>(rows[r].biases.size());
    s.first_top = places.tops, s.top = std::min(static_cast<int>(out[r].top.size()), vocab);
    counts += s.counts, biases += s.biases, places.tops += s.top;
    settings.push_back(s);
  }
  table.clear();
  append<SampleSettings>(table, settings);
  places.masks = table.size();
  for (const SamplingRow& row : rows) {
    if (row.mask != nullptr) append<std::uint64_t>(table, {row.mask, static_cast<std::size_t>(words)});
  }
  places.counts = table.size();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (settings[r].penalised != 0) append<TokenCount>(table, rows[r].counts);
  }
  places.biases = table.size();
  for (const SamplingRow& row : rows) append<LogitBias>(table, row.biases);
  places.bytes = table.size();
  return places;
}

}  // namespace

void CudaBackend::sample(MatrixView<float> logits, std::span<const SamplingRow> rows,
                         std::span<SampledToken> out) {
  if (rows.empty()) return;
  const cudaStream_t queue = stream();
  const int vocab = static_cast<int>(logits.cols);
  const SampleTable table = fill_table(sampling_table_, rows, out, vocab);
  const std::byte* sent = sampling_.send(sampling_table_.data(), table.bytes, queue);
  const std::size_t result_bytes = rows.size() * sizeof(SampleResult);
  const std::size_t bytes = result_bytes + static_cast<std::size_t>(table.tops) * sizeof(TokenLogprob);
  std::byte* results = sampled_.at_least(bytes, queue);
  if (bytes > sampled_host_bytes_) {
    sampled_host_ = allocate_pinned(2 * bytes);
    sampled_host_bytes_ = 2 * bytes;
  }
  working_.at_least(rows.size() * static_cast<std::size_t>(vocab) * sizeof(float), queue);
  SampleJob job{logits.data,
                logits.stride,
                vocab,
                working_.as<float>(),
                reinterpret_cast<const SampleSettings*>(sent),
                reinterpret_cast<const std::uint64_t*>(sent + table.masks),
                reinterpret_cast<const TokenCount*>(sent + table.counts),
                reinterpret_cast<const LogitBias*>(sent + table.biases),
                reinterpret_cast<SampleResult*>(results),
                reinterpret_cast<TokenLogprob*>(results + result_bytes)};
  const int threads = std::clamp(round_up(ceil_div(vocab, 8), kWarp), kWarp, kMostThreads);
  launch(sample_rows, static_cast<unsigned>(rows.size()), static_cast<unsigned>(threads), kSampleShared,
         queue, job);
  download(sampled_host_.get(), results, bytes);
  const auto* tokens = reinterpret_cast<const SampleResult*>(sampled_host_.get());
  const auto* tops = reinterpret_cast<const TokenLogprob*>(sampled_host_.get() + result_bytes);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out[r].id = tokens[r].id;
    out[r].logprob = tokens[r].logprob;
    out[r].kept = tokens[r].kept;
    out[r].finite = tokens[r].finite != 0;
    const int count = std::min(static_cast<int>(out[r].top.size()), vocab);
    if (out[r].finite) std::copy_n(tops, count, out[r].top.begin());
    tops += count;
  }
}

}  // namespace grokd::kernels::cuda

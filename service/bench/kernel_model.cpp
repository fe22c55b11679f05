#include "service/bench/kernel_model.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "kernels/rope_table.h"

namespace grokd::bench {
namespace {

using kernels::MatrixView;

/// xorshift; only its spread matters here.
class Random {
 public:
  std::uint32_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 17, state_ ^= state_ << 5;
    return state_;
  }
  float signed_unit() { return static_cast<float>(static_cast<std::int32_t>(next())) * 0x1p-31f; }

 private:
  std::uint32_t state_ = 2463534242u;
};

/// A random matrix that outlives its packing.
struct HostMatrix {
  HostMatrix(Random& random, int in, int out)
      : weight(static_cast<std::size_t>(in) * static_cast<std::size_t>(out)) {
    for (auto& w : weight) w = static_cast<std::int8_t>(random.next() >> 24);
    scales.assign(static_cast<std::size_t>(out), 0.01f / static_cast<float>(in));
    source = {{weight.data(), in, out, out}, {scales.data(), 1, out, out}};
  }
  std::vector<std::int8_t> weight;
  std::vector<float> scales;
  kernels::LinearSource source;
};

constexpr float kEps = 1e-5f;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Adds the time since the last call to an op.
class Stopwatch {
 public:
  explicit Stopwatch(StepReport& report) : report_(report) {}
  void lap(Op op) {
    const double now = seconds_now();
    report_.seconds[op] += now - last_;
    last_ = now;
  }

 private:
  StepReport& report_;
  double last_ = seconds_now();
};

}  // namespace

KernelModel::KernelModel(kernels::Backend& backend, const Shape& shape, int max_tokens, int context)
    : backend_(backend), shape_(shape), pages_each_((context + 63) / 64) {
  Random random;
  const int queries = shape.heads * shape.head_size,
            wide = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  const HostMatrix qkv(random, shape.width, wide), out(random, queries, shape.width);
  const HostMatrix gate(random, shape.width, shape.ffn), up(random, shape.width, shape.ffn);
  const HostMatrix down(random, shape.ffn, shape.width);
  const std::vector<kernels::ExpertSource> experts(static_cast<std::size_t>(shape.experts),
                                                   {gate.source, up.source, down.source});
  const auto floats = [&](std::size_t count) { return backend.allocate(count * sizeof(float)); };
  const auto noise = [&](std::size_t count) {
    kernels::Buffer buffer = floats(count);
    std::generate_n(buffer.as<float>(), count, [&] { return random.signed_unit(); });
    return buffer;
  };
  const auto n = [](int count) { return static_cast<std::size_t>(count); };

  const int pages = max_tokens * pages_each_;
  const std::size_t page_bytes = backend.kv_page_bytes(shape.kv_heads, shape.head_size);
  for (int i = 0; i < shape.layers; ++i) {
    kv_memory_.push_back(backend.allocate(page_bytes * n(pages)));
    layers_.push_back({backend.pack_linear({&qkv.source, 1}, 1),
                       backend.pack_linear({&out.source, 1}, shape.groups),
                       backend.pack_experts(experts, shape.groups),
                       noise(n(shape.width) * n(shape.experts)),
                       {kv_memory_.back().data(), page_bytes, shape.kv_heads, shape.head_size}});
  }
  pages_.resize(n(pages));
  std::iota(pages_.begin(), pages_.end(), 0);
  table_ = noise(n(shape.vocab) * n(shape.width));
  head_ = backend.pack_head({table_.as<float>(), shape.vocab, shape.width});
  rope_ = kernels::make_rope_table(backend, 10000, shape.head_size, context);
  gain_ = floats(n(shape.width));
  std::fill_n(gain_.as<float>(), shape.width, 1.0f);

  h_ = floats(n(max_tokens) * n(shape.width)), normed_ = floats(n(max_tokens) * n(shape.width));
  wide_ = floats(n(max_tokens) * n(wide)), attended_ = floats(n(max_tokens) * n(queries));
  projected_ = floats(n(max_tokens) * n(shape.width)), logits_ = floats(n(max_tokens) * n(shape.vocab));
  expert_ = backend.allocate(n(max_tokens) * n(shape.per_token) * sizeof(std::int32_t));
  gate_ = floats(n(max_tokens) * n(shape.per_token));
  x_ = backend.allocate_quantised(max_tokens, shape.width, 1);
  q_ = backend.allocate_quantised(max_tokens * shape.heads, shape.head_size, 1);
  o_ = backend.allocate_quantised(max_tokens, queries, shape.groups);
  backend.reserve({max_tokens, max_tokens, max_tokens, shape.width, shape.heads, shape.kv_heads,
                   shape.head_size, shape.experts, shape.per_token, shape.ffn, shape.groups, shape.vocab,
                   context});
}

MatrixView<float> KernelModel::view(const kernels::Buffer& buffer, int rows, int cols) const {
  return {buffer.as<float>(), rows, cols};
}

std::vector<Block> KernelModel::weight_blocks() const {
  std::vector<Block> blocks;
  for (const Layer& layer : layers_) {
    blocks.push_back({layer.qkv.data.data(), layer.qkv.data.bytes()});
    blocks.push_back({layer.out.data.data(), layer.out.data.bytes()});
    for (const auto& expert : layer.experts.data) blocks.push_back({expert.data(), expert.bytes()});
  }
  blocks.push_back({head_.data.data(), head_.data.bytes()});
  return blocks;
}

void KernelModel::count_experts(const Layer& layer, int tokens, StepReport& report) const {
  const auto* chosen = expert_.as<std::int32_t>();
  const std::set<std::int32_t> distinct(chosen, chosen + tokens * shape_.per_token);
  report.bytes += static_cast<double>(layer.qkv.data.bytes() + layer.out.data.bytes());
  report.bytes += static_cast<double>(distinct.size()) * static_cast<double>(layer.experts.data[0].bytes());
  const double attention = 2.0 * (shape_.heads + shape_.kv_heads) * shape_.head_size * shape_.width;
  report.macs += tokens * (attention + 3.0 * shape_.per_token * shape_.width * shape_.ffn);
}

void KernelModel::run_layer(const Layer& layer, std::span<const kernels::SequenceRows> sequences, int tokens,
                            StepReport& report) {
  const int queries = shape_.heads * shape_.head_size,
            wide = queries + 2 * shape_.kv_heads * shape_.head_size;
  const auto h = view(h_, tokens, shape_.width), normed = view(normed_, tokens, shape_.width);
  const auto projected = view(projected_, tokens, shape_.width), attended = view(attended_, tokens, queries);
  const kernels::ExpertChoice choice{expert_.as<std::int32_t>(), gate_.as<float>(), tokens, shape_.per_token};
  const auto* gain = gain_.as<float>();
  Stopwatch watch(report);
  backend_.linear(x_.view(tokens), layer.qkv, view(wide_, tokens, wide));
  watch.lap(kLinearIn);
  backend_.rope_store(view(wide_, tokens, wide), sequences, rope_, layer.kv, shape_.heads,
                      q_.view(tokens * shape_.heads));
  watch.lap(kRope);
  backend_.attention(q_.view(tokens * shape_.heads), sequences, layer.kv, {shape_.heads, 0.08838835f, 30, 0},
                     attended);
  watch.lap(kAttention);
  backend_.quantise(attended, o_.view(tokens));
  watch.lap(kNorms);
  backend_.linear(o_.view(tokens), layer.out, projected);
  watch.lap(kLinearOut);
  backend_.residual_norm_quantise(projected, gain, h, gain, kEps, normed, x_.view(tokens));
  watch.lap(kNorms);
  backend_.route(normed, {layer.router.as<float>(), shape_.width, shape_.experts}, 0, false, choice);
  watch.lap(kRoute);
  backend_.experts(x_.view(tokens), choice, layer.experts, projected);
  watch.lap(kExperts);
  backend_.residual_norm_quantise(projected, gain, h, gain, kEps, {}, x_.view(tokens));
  watch.lap(kNorms);
  count_experts(layer, tokens, report);
}

StepReport KernelModel::step(int sequences, int rows, int position) {
  StepReport report;
  const int tokens = sequences * rows;
  std::vector<kernels::SequenceRows> step;
  for (int s = 0; s < sequences; ++s) {
    step.push_back({s * rows, rows, position,
                    std::span<const std::int32_t>(pages_).subspan(static_cast<std::size_t>(s * pages_each_),
                                                                  static_cast<std::size_t>(pages_each_))});
  }
  std::vector<kernels::TokenId> ids;
  for (int t = 0; t < tokens; ++t) ids.push_back((t * 7919 + position * 31 + 11) % shape_.vocab);
  std::vector<std::int32_t> last;
  for (int s = 0; s < sequences; ++s) last.push_back((s + 1) * rows - 1);
  std::vector<kernels::SamplingRow> settings(static_cast<std::size_t>(sequences));
  for (kernels::SamplingRow& row : settings) row.temperature = 0;
  std::vector<kernels::SampledToken> sampled(settings.size());

  const double start = seconds_now();
  const auto h = view(h_, tokens, shape_.width);
  Stopwatch watch(report);
  backend_.embed(ids, {table_.as<float>(), shape_.vocab, shape_.width}, 78.0f, h);
  backend_.norm_quantise(h, {}, gain_.as<float>(), kEps, {}, x_.view(tokens));
  watch.lap(kNorms);
  for (const Layer& layer : layers_) run_layer(layer, step, tokens, report);
  Stopwatch end(report);
  backend_.norm_quantise(h, last, gain_.as<float>(), kEps, {}, x_.view(sequences));
  end.lap(kNorms);
  backend_.logits(x_.view(sequences), head_, 0.57735f, 0, view(logits_, sequences, shape_.vocab));
  end.lap(kLogits);
  backend_.sample(view(logits_, sequences, shape_.vocab), settings, sampled);
  end.lap(kSample);
  report.total = seconds_now() - start;
  report.bytes += static_cast<double>(head_.data.bytes());
  report.macs += 2.0 * sequences * shape_.vocab * shape_.width;
  return report;
}

}  // namespace grokd::bench

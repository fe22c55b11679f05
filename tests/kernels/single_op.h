#pragma once
// One op on one backend, from host values to host values.

#include <span>
#include <vector>

#include "tests/kernels/backends.h"
#include "tests/support/device_arrays.h"

namespace grokd::test {

inline kernels::StepLimits limits_of_rows(int rows, int width, int groups = 1) {
  kernels::StepLimits limits;
  limits.tokens = limits.logit_rows = rows;
  limits.width = width;
  limits.groups = groups;
  return limits;
}

inline HostCodes quantise_rows(kernels::Backend& backend, const std::vector<float>& x, int rows, int cols,
                               int groups) {
  const DeviceMatrix<float> device(backend, x, rows, cols);
  const auto buffer = backend.allocate_quantised(rows, cols, groups);
  backend.reserve(limits_of_rows(rows, cols, groups));
  backend.quantise(device.view(), buffer.view(rows));
  return read_quantised(backend, buffer.view(rows));
}

/// Quantises x and multiplies by w [K, N] with scales [scale_rows, N].
inline std::vector<float> run_linear(kernels::Backend& backend, const std::vector<float>& x,
                                     const std::vector<std::int8_t>& w, const std::vector<float>& scales,
                                     int groups, int scale_rows) {
  const int outputs = static_cast<int>(scales.size()) / scale_rows;
  const int inputs = static_cast<int>(w.size()) / outputs;
  const int rows = static_cast<int>(x.size()) / inputs;
  const kernels::LinearSource source{{w.data(), inputs, outputs}, {scales.data(), scale_rows, outputs}};
  const auto weights = backend.pack_linear({&source, 1}, groups);
  const DeviceMatrix<float> device(backend, x, rows, inputs), y(backend, rows, outputs);
  const auto codes = backend.allocate_quantised(rows, inputs, groups);
  backend.reserve(limits_of_rows(rows, inputs, groups));
  backend.quantise(device.view(), codes.view(rows));
  backend.linear(codes.view(rows), weights, y.view());
  return y.read();
}

/// RoPE that changes nothing.
inline kernels::RopeTable identity_rope(kernels::Backend& backend, int positions, int head_size) {
  const std::vector<float> ones(static_cast<std::size_t>(positions) * head_size / 2, 1.0f);
  kernels::RopeTable rope;
  rope.positions = positions;
  rope.half = head_size / 2;
  rope.cos = backend.allocate(ones.size() * sizeof(float));
  rope.sin = backend.allocate(ones.size() * sizeof(float));
  backend.upload(rope.cos.data(), ones.data(), ones.size() * sizeof(float));
  return rope;
}

struct Cache {
  kernels::Buffer memory;
  kernels::KvLayer layer;

  Cache(kernels::Backend& backend, int pages, int kv_heads, int head_size) {
    const std::size_t page_bytes = backend.kv_page_bytes(kv_heads, head_size);
    memory = backend.allocate(page_bytes * static_cast<std::size_t>(pages));
    layer = {memory.data(), page_bytes, kv_heads, head_size};
  }
};

/// One head: keys k and values v [S, C] as they are, queries q [rows, C] at `positions`.
inline std::vector<float> run_one_head(kernels::Backend& backend, const std::vector<float>& q,
                                       const std::vector<float>& k, const std::vector<float>& v,
                                       const std::vector<int>& positions, kernels::AttentionShape shape) {
  const int rows = static_cast<int>(positions.size());
  const int size = static_cast<int>(q.size()) / rows, length = static_cast<int>(k.size()) / size;
  std::vector<float> qkv;
  for (int j = 0; j < length; ++j) {
    qkv.insert(qkv.end(), static_cast<std::size_t>(size), 0.0f);
    qkv.insert(qkv.end(), &k[j * size], &k[j * size] + size);
    qkv.insert(qkv.end(), &v[j * size], &v[j * size] + size);
  }
  std::vector<std::int32_t> pages;  // falling, so that order in memory is not order in time
  for (int page = (length - 1) / kernels::kPagePositions; page >= 0; --page) pages.push_back(page);

  kernels::StepLimits limits = limits_of_rows(length, size);
  limits.sequences = rows;
  limits.heads = limits.kv_heads = 1;
  limits.head_size = size;
  limits.positions = length;
  backend.reserve(limits);
  const Cache cache(backend, static_cast<int>(pages.size()), 1, size);
  const DeviceMatrix<float> all(backend, qkv, length, 3 * size), queries(backend, q, rows, size),
      o(backend, rows, size);
  const auto unused = backend.allocate_quantised(length, size, 1);
  const auto codes = backend.allocate_quantised(rows, size, 1);
  const kernels::SequenceRows whole{0, length, 0, pages};
  backend.rope_store(all.view(), {&whole, 1}, identity_rope(backend, length, size), cache.layer, 1,
                     unused.view(length));
  backend.quantise(queries.view(), codes.view(rows));
  std::vector<kernels::SequenceRows> sequences;
  for (int row = 0; row < rows; ++row) sequences.push_back({row, 1, positions[row], pages});
  shape.heads = 1;
  backend.attention(codes.view(rows), sequences, cache.layer, shape, o.view());
  return o.read();
}

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> gates;
};

inline Routed run_route(kernels::Backend& backend, const std::vector<float>& x, const std::vector<float>& w,
                        int width, int count, float cap, bool renormalise = false) {
  const int rows = static_cast<int>(x.size()) / width, experts = static_cast<int>(w.size()) / width;
  const DeviceMatrix<float> device_x(backend, x, rows, width), device_w(backend, w, width, experts);
  const DeviceMatrix<std::int32_t> expert(backend, rows, count);
  const DeviceMatrix<float> gate(backend, rows, count);
  kernels::StepLimits limits = limits_of_rows(rows, width);
  limits.experts = experts;
  limits.per_token = count;
  backend.reserve(limits);
  backend.route(device_x.view(), device_w.view(), cap, renormalise,
                {expert.data(), gate.data(), rows, count});
  return {expert.read(), gate.read()};
}

/// Samples one row of logits.
inline kernels::SampledToken run_sample(kernels::Backend& backend, const std::vector<float>& x,
                                        const kernels::SamplingRow& row,
                                        std::span<kernels::TokenLogprob> top = {}) {
  const int vocab = static_cast<int>(x.size());
  kernels::StepLimits limits = limits_of_rows(1, 1);
  limits.sequences = 1;
  limits.vocab = vocab;
  backend.reserve(limits);
  const DeviceMatrix<float> logits(backend, x, 1, vocab);
  kernels::SampledToken token;
  token.top = top;
  backend.sample(logits.view(), {&row, 1}, {&token, 1});
  return token;
}

}  // namespace grokd::test

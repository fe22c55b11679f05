// rope_store and attention on every backend.

#include "kernels/rope_table.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/hard_inputs.h"

namespace grokd::test {
namespace {

using kernels::Backend;
using kernels::kPagePositions;
using kernels::SequenceRows;

struct Shape {
  int heads, kv_heads, head_size;
  kernels::KvType type = kernels::KvType::int16;
  int row_width() const { return (heads + 2 * kv_heads) * head_size; }
};

/// Rows of several sequences, each with pages of its own, in an order that is not rising.
struct Step {
  struct Part {
    int rows, position;
  };
  std::vector<std::vector<std::int32_t>> pages;
  std::vector<SequenceRows> sequences;
  int rows = 0, page_count = 0;

  explicit Step(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      const int count = (part.position + part.rows + kPagePositions - 1) / kPagePositions;
      std::vector<std::int32_t> own;
      for (int i = 0; i < count; ++i) own.push_back(page_count + count - 1 - i);
      page_count += count;
      pages.push_back(own);
    }
    for (std::size_t s = 0; s < parts.size(); ++s) {
      sequences.push_back({rows, parts[s].rows, parts[s].position, pages[s]});
      rows += parts[s].rows;
    }
  }

  /// The same sequences from position 0 on: what fills the cache before.
  Step history() const {
    std::vector<Part> parts;
    for (const SequenceRows& s : sequences) parts.push_back({s.position + s.rows, 0});
    return Step(parts);
  }
  int longest() const {
    int positions = 0;
    for (const SequenceRows& s : sequences) positions = std::max(positions, s.position + s.rows);
    return positions;
  }
};

kernels::StepLimits limits_of(const Shape& shape, const Step& step) {
  kernels::StepLimits limits;
  limits.tokens = std::max(step.history().rows, step.rows);
  limits.logit_rows = limits.sequences = static_cast<int>(step.sequences.size());
  limits.heads = shape.heads;
  limits.kv_heads = shape.kv_heads;
  limits.head_size = shape.head_size;
  limits.positions = step.longest();
  return limits;
}

/// Ranges from a hundredth to a hundred, and their reciprocals.
std::vector<float> some_ranges(std::size_t channels) {
  std::vector<float> ranges = hard_floats(34, 2 * channels, 1);
  for (float& range : ranges) range = std::exp2(6 * std::clamp(range, -1.0f, 1.0f));
  std::vector<float> all(4 * channels);
  for (std::size_t i = 0; i < channels; ++i) {
    all[i] = ranges[i], all[channels + i] = 1 / ranges[i];
    all[2 * channels + i] = ranges[channels + i], all[3 * channels + i] = 1 / ranges[channels + i];
  }
  return all;
}

struct Cache {
  kernels::Buffer memory, ranges;
  kernels::KvLayer layer;

  Cache(Backend& backend, int pages, const Shape& shape) {
    const std::size_t page_bytes = backend.kv_page_bytes(shape.kv_heads, shape.head_size, shape.type);
    memory = backend.allocate(page_bytes * static_cast<std::size_t>(pages));
    const auto channels = static_cast<std::size_t>(shape.kv_heads * shape.head_size);
    const std::vector<float> values = some_ranges(channels);
    ranges = backend.allocate(values.size() * sizeof(float));
    backend.upload(ranges.data(), values.data(), ranges.bytes());
    const float* at = ranges.as<float>();
    layer = {memory.data(),   page_bytes, shape.kv_heads,
             shape.head_size, shape.type, {at, at + channels, at + 2 * channels, at + 3 * channels}};
  }

  Outcome read(Backend& backend, int pages) const {
    Outcome outcome;
    const auto entries = static_cast<std::size_t>(kPagePositions * layer.kv_heads);
    std::vector<std::int16_t> keys(entries * layer.head_size), values(keys.size());
    std::vector<float> key_scales(entries), value_scales(entries);
    for (int page = 0; page < pages; ++page) {
      backend.read_kv(layer, page, kPagePositions, keys.data(), key_scales.data(), values.data(),
                      value_scales.data());
      outcome.add(keys);
      outcome.add(key_scales);
      outcome.add(values);
      outcome.add(value_scales);
    }
    return outcome;
  }
};

/// Fills the cache with `history`, then attends with the queries of the last rows of each sequence.
Outcome run_attention(Backend& backend, const Shape& shape, const Step& step, const std::vector<float>& qkv,
                      const std::vector<float>& queries, const kernels::AttentionShape& attention) {
  const Step history = step.history();
  const auto rope = kernels::make_rope_table(backend, 10000.0, shape.head_size, step.longest());
  const Cache cache(backend, step.page_count, shape);
  const DeviceMatrix<float> device(backend, qkv, history.rows, shape.row_width());
  const DeviceMatrix<float> device_queries(backend, queries, step.rows * shape.heads, shape.head_size);
  const DeviceMatrix<float> o(backend, step.rows, shape.heads * shape.head_size);
  const auto unused = backend.allocate_quantised(history.rows * shape.heads, shape.head_size, 1);
  const auto q = backend.allocate_quantised(step.rows * shape.heads, shape.head_size, 1);
  backend.rope_store(device.view(), history.sequences, rope, cache.layer, shape.heads,
                     unused.view(history.rows * shape.heads));
  backend.quantise(device_queries.view(), q.view(step.rows * shape.heads));
  backend.attention(q.view(step.rows * shape.heads), step.sequences, cache.layer, attention, o.view());
  Outcome outcome;
  outcome.add(o.read());
  return outcome;
}

std::vector<float> history_of(const Shape& shape, const Step& step, float size) {
  return hard_floats(31, static_cast<std::size_t>(step.history().rows) * shape.row_width(), size);
}

std::vector<float> queries_of(const Shape& shape, const Step& step, float size) {
  return hard_floats(32, static_cast<std::size_t>(step.rows) * shape.heads * shape.head_size, size);
}

constexpr auto kNarrow = kernels::KvType::int8;
constexpr Shape kShapes[] = {{1, 1, 16},          {4, 2, 16},          {6, 1, 128},
                             {3, 3, 64},          {12, 2, 32},         {5, 1, 20},
                             {2, 1, 6},           {4, 2, 16, kNarrow}, {6, 1, 128, kNarrow},
                             {3, 3, 64, kNarrow}, {5, 1, 20, kNarrow}, {2, 1, 6, kNarrow}};

}  // namespace

TEST_CASE("rope_store equals the reference across page borders, with poisoned and equal rows") {
  const Step step({{3, 62}, {1, 0}, {70, 120}, {1, 64}});
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.head_size);
    Comparison compare(limits_of(shape, step));
    std::vector<float> qkv = hard_floats(33, static_cast<std::size_t>(step.rows) * shape.row_width(), 4);
    spoil_rows(qkv, shape.head_size);  // a kind for each head of each row
    compare.check([&](Backend& backend) {
      const auto rope = kernels::make_rope_table(backend, 10000.0, shape.head_size, step.longest());
      const Cache cache(backend, step.page_count, shape);
      const DeviceMatrix<float> device(backend, qkv, step.rows, shape.row_width());
      const auto q = backend.allocate_quantised(step.rows * shape.heads, shape.head_size, 1);
      backend.rope_store(device.view(), step.sequences, rope, cache.layer, shape.heads,
                         q.view(step.rows * shape.heads));
      Outcome outcome = cache.read(backend, step.page_count);
      outcome.add(read_quantised(backend, q.view(step.rows * shape.heads)));
      return outcome;
    });
  }
}

TEST_CASE("attention equals the reference: steps of one row and of many, capped, uncapped, windowed") {
  const Step step({{1, 0}, {1, 63}, {1, 64}, {5, 61}, {20, 0}, {1, 200}, {40, 130}});
  for (const Shape& shape : kShapes) {
    Comparison compare(limits_of(shape, step));
    const auto qkv = history_of(shape, step, 2), queries = queries_of(shape, step, 3);
    for (const float cap : {30.0f, 0.0f}) {
      for (const int window : {0, 1, 5, 64, 100}) {
        CAPTURE(shape.head_size);
        CAPTURE(cap);
        CAPTURE(window);
        compare.check([&](Backend& backend) {
          return run_attention(backend, shape, step, qkv, queries, {shape.heads, 0.125f, cap, window});
        });
      }
    }
  }
}

TEST_CASE("attention equals the reference with a temperature for each position") {
  const Step step({{1, 0}, {5, 61}, {1, 200}, {40, 130}});
  std::vector<float> factors(static_cast<std::size_t>(step.longest()));
  for (std::size_t p = 0; p < factors.size(); ++p) factors[p] = 1.0f + static_cast<float>(p) / 256;
  for (const Shape& shape : {Shape{4, 2, 16}, Shape{6, 1, 128}, Shape{4, 2, 16, kNarrow}}) {
    Comparison compare(limits_of(shape, step));
    const auto qkv = history_of(shape, step, 2), queries = queries_of(shape, step, 30);
    for (const float cap : {30.0f, 0.0f}) {
      compare.check([&](Backend& backend) {
        const auto buffer = backend.allocate(factors.size() * sizeof(float));
        backend.upload(buffer.data(), factors.data(), buffer.bytes());
        return run_attention(backend, shape, step, qkv, queries,
                             {shape.heads, 0.125f, cap, 0, buffer.as<float>()});
      });
    }
  }
}

TEST_CASE("attention equals the reference where scores are far apart") {
  const Step step({{1, 150}, {8, 90}});
  const Shape shape{4, 2, 32};
  Comparison compare(limits_of(shape, step));
  const auto qkv = history_of(shape, step, 60), queries = queries_of(shape, step, 60);
  for (const float cap : {30.0f, 0.0f}) {
    compare.check([&](Backend& backend) {
      return run_attention(backend, shape, step, qkv, queries, {shape.heads, 1.0f, cap, 0});
    });
  }
}

TEST_CASE("attention over zero, equal and poisoned keys, values and queries equals the reference") {
  const Step step({{1, 140}, {30, 40}});
  for (const Shape& shape : {Shape{2, 1, 16}, Shape{6, 1, 128}, Shape{4, 2, 16, kNarrow}}) {
    Comparison compare(limits_of(shape, step));
    for (int kind = 0; kind < kRowKinds; ++kind) {
      CAPTURE(kind);
      auto qkv = history_of(shape, step, 2);
      auto queries = queries_of(shape, step, 3);
      const int heads_per_row = shape.heads + 2 * shape.kv_heads;
      for (const int row : {70, 100}) {  // one key, one value; all keys of the kind that is all equal
        spoil_row(qkv, shape.head_size, row * heads_per_row + shape.heads, kind);
        spoil_row(qkv, shape.head_size, (row + 3) * heads_per_row + shape.heads + shape.kv_heads, kind);
      }
      spoil_row(queries, shape.head_size, 5, kind);
      for (const float cap : {30.0f, 0.0f}) {
        compare.check([&](Backend& backend) {
          return run_attention(backend, shape, step, qkv, queries, {shape.heads, 0.25f, cap, 0});
        });
      }
    }
  }
}

TEST_CASE("products of the largest codes do not overflow") {
  const Step step({{2, 126}});
  for (const Shape& shape :
       {Shape{1, 1, 64}, Shape{1, 1, 128}, Shape{1, 1, 256}, Shape{1, 1, 256, kNarrow}}) {
    const int head_size = shape.head_size;
    CAPTURE(head_size);
    Comparison compare(limits_of(shape, step));
    const std::vector<float> ones(static_cast<std::size_t>(step.history().rows) * shape.row_width(), 1.0f);
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> queries(static_cast<std::size_t>(step.rows) * head_size, sign);
      compare.check([&](Backend& backend) {
        return run_attention(backend, shape, step, ones, queries, {1, 0.001f, 30.0f, 0});
      });
    }
  }
}

TEST_CASE("what later positions and other sequences hold does not show") {
  const Step step({{1, 70}, {1, 130}});
  const Shape shape{4, 2, 16};
  const auto qkv = history_of(shape, step, 2), queries = queries_of(shape, step, 3);
  // The same cache once more, with NaN behind the position of each query and in a page that nobody reads.
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    const Step history = step.history();
    kernels::StepLimits limits = limits_of(shape, step);
    limits.tokens = 300;
    backend->reserve(limits);
    const auto rope = kernels::make_rope_table(*backend, 10000.0, shape.head_size, 4 * kPagePositions);
    const auto run = [&](bool poisoned) {
      const Cache cache(*backend, step.page_count + 1, shape);
      const auto q = backend->allocate_quantised(step.rows * shape.heads, shape.head_size, 1);
      const auto unused = backend->allocate_quantised(300 * shape.heads, shape.head_size, 1);
      if (poisoned) {
        const int count = kPagePositions * (step.page_count + 1);
        const std::vector<float> nan(static_cast<std::size_t>(kPagePositions) * shape.row_width(),
                                     std::nanf(""));
        const DeviceMatrix<float> device(*backend, nan, kPagePositions, shape.row_width());
        for (std::int32_t page = 0; page < count / kPagePositions; ++page) {
          const SequenceRows whole{0, kPagePositions, 0, {&page, 1}};
          backend->rope_store(device.view(), {&whole, 1}, rope, cache.layer, shape.heads,
                              unused.view(kPagePositions * shape.heads));
        }
      }
      const DeviceMatrix<float> device(*backend, qkv, history.rows, shape.row_width());
      backend->rope_store(device.view(), history.sequences, rope, cache.layer, shape.heads,
                          unused.view(history.rows * shape.heads));
      const DeviceMatrix<float> device_queries(*backend, queries, step.rows * shape.heads, shape.head_size);
      const DeviceMatrix<float> o(*backend, step.rows, shape.heads * shape.head_size);
      backend->quantise(device_queries.view(), q.view(step.rows * shape.heads));
      backend->attention(q.view(step.rows * shape.heads), step.sequences, cache.layer,
                         {shape.heads, 0.25f, 0, 0}, o.view());
      return o.read();
    };
    const auto clean = run(false);
    CHECK(std::all_of(clean.begin(), clean.end(), [](float value) { return std::isfinite(value); }));
    CHECK(first_difference(run(true), clean) == "");
  }
}

TEST_CASE("the rows of a prefill equal the same rows one at a time") {
  const Shape shape{4, 2, 16};
  const Step together({{20, 55}});
  const auto qkv = history_of(shape, together, 2), queries = queries_of(shape, together, 3);
  const std::size_t row_size = static_cast<std::size_t>(shape.heads) * shape.head_size;
  for (const auto& backend : all_backends()) {
    CAPTURE(backend->name());
    backend->reserve(limits_of(shape, together));
    for (const float cap : {30.0f, 0.0f}) {
      const kernels::AttentionShape attention{shape.heads, 0.25f, cap, 40};
      const auto all = run_attention(*backend, shape, together, qkv, queries, attention).floats;
      for (int i = 0; i < 20; ++i) {
        const Step alone({{1, 55 + i}});
        const auto begin = static_cast<std::ptrdiff_t>(row_size) * i,
                   end = begin + static_cast<std::ptrdiff_t>(row_size);
        const std::vector<float> query(queries.begin() + begin, queries.begin() + end);
        const std::vector<float> expected(all.begin() + begin, all.begin() + end);
        CHECK(first_difference(run_attention(*backend, shape, alone, qkv, query, attention).floats,
                               expected) == "");
      }
    }
  }
}

}  // namespace grokd::test

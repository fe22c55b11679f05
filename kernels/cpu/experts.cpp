// route and experts. The tokens of a step are grouped by expert, so each chosen expert's weights are read
// once.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/op_scratch.h"
#include "kernels/cpu/panels.h"

namespace grokd::kernels {
namespace {

/// The `count` largest of p, falling, ties to the lower index. p is overwritten.
void take_largest(float* p, int experts, int count, std::int32_t* expert, float* gate) {
  for (int j = 0; j < count; ++j) {
    int best = 0;
    for (int e = 1; e < experts; ++e) {
      if (p[e] > p[best]) best = e;
    }
    expert[j] = best;
    gate[j] = p[best];
    p[best] = -1;  // below every probability
  }
}

void choose_experts(float* weight, int experts, int count, bool renormalise, std::int32_t* expert,
                    float* gate) {
  float total = 0;
  for (int e = 0; e < experts; ++e) total = total + weight[e];
  if (std::isnan(total)) {
    for (int j = 0; j < count; ++j) expert[j] = j, gate[j] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  for (int e = 0; e < experts; ++e) weight[e] = weight[e] / total;
  take_largest(weight, experts, count, expert, gate);
  if (!renormalise) return;
  float sum = 0;
  for (int j = 0; j < count; ++j) sum = sum + gate[j];
  for (int j = 0; j < count; ++j) gate[j] = gate[j] / sum;
}

/// Sorts the (token, choice) entries by expert. An entry's place in the sorted order is its line.
void group_by_expert(const ExpertChoice& choice, int experts, ExpertLists& lists) {
  const int entries = choice.tokens * choice.per_token;
  std::fill_n(lists.begin, experts + 1, 0);
  for (int i = 0; i < entries; ++i) {
    if (choice.expert[i] >= 0) ++lists.begin[choice.expert[i] + 1];
  }
  lists.active_count = 0;
  for (int e = 0; e < experts; ++e) {
    if (lists.begin[e + 1] > 0) lists.active[lists.active_count++] = e;
    lists.begin[e + 1] += lists.begin[e];
    lists.filled[e] = lists.begin[e];
  }
  for (int i = 0; i < entries; ++i) {
    const int e = choice.expert[i];
    lists.line[i] = e >= 0 ? lists.filled[e]++ : -1;
    if (e >= 0) lists.token[lists.line[i]] = i / choice.per_token;
  }
}

constexpr std::size_t kCachedWeights = 512 << 10;  // a good part of a core's own cache
constexpr int kCachedTokens = 64;

/// Everything the two passes over the weights share.
struct ExpertStep {
  const KernelTable& kernels;
  const Quantised& x;
  const ExpertChoice& choice;
  const ExpertWeights& w;
  const MatrixView<float>& y;
  const ExpertLists& lists;
  ExpertLayout layout;
  int threads;

  int lines(int e) const { return lists.begin[e + 1] - lists.begin[e]; }

  // First pass: tiles (active expert, panel of gate and up).
  int gate_up_panels() const { return layout.gate_up().panels(); }
  int gate_up_tiles() const { return lists.active_count * gate_up_panels(); }
  const std::byte* gate_up_panel(int tile) const;
  void gate_up(int tile, const PanelScratch& own) const;
  void finish_columns(int e, int column, int columns) const;

  // Second pass: tiles are panels of down, of all active experts.
  int down_tiles() const { return layout.down().panels(); }
  const std::byte* down_panel(int panel, int active) const;
  std::ptrdiff_t line_floats() const { return std::ptrdiff_t{layout.groups} * kPanelColumns; }
  int tokens_at_once() const;
  void down(int panel, const DownScratch& own) const;
  void down_tokens(int panel, int first_token, int end_token, const DownScratch& own) const;
  void multiply_down(int panel, int active, int first, int count, const std::byte* next, float* parts) const;
  void mix_token(int panel, int token, const DownScratch& own) const;
};

const std::byte* ExpertStep::gate_up_panel(int tile) const {
  if (tile >= gate_up_tiles()) return nullptr;
  const int e = lists.active[tile / gate_up_panels()];
  return w.data[static_cast<std::size_t>(e)].data() +
         static_cast<std::size_t>(tile % gate_up_panels()) * layout.gate_up().panel_bytes();
}

void ExpertStep::gate_up(int tile, const PanelScratch& own) const {
  const int e = lists.active[tile / gate_up_panels()], column = tile % gate_up_panels() * kPairColumns;
  const int columns = std::min(kPairColumns, layout.ffn - column);
  const CodeRows rows{x.codes, x.scales, {layout.width, 1}, lists.token + lists.begin[e], lines(e)};
  const RowTiles row_tiles(lines(e), kernels.matrix->rows);
  PrefetchWalk walk = row_tiles.walk(gate_up_panel(tile + threads));
  const auto product =
      w.activation == Activation::silu ? kernels.vector->silu_product : kernels.vector->gelu_product;
  for (int t = 0; t < row_tiles.tiles(); ++t) {
    const int first = row_tiles.first(t), count = row_tiles.count(t);
    multiply_rows(*kernels.matrix, rows, first, count, layout.gate_up(), gate_up_panel(tile), walk, own.y,
                  kPanelColumns);
    for (int i = 0; i < count; ++i) {
      const float* u = own.y + std::ptrdiff_t{i} * kPanelColumns;
      float* inner = lists.inner + std::ptrdiff_t{lists.begin[e] + first + i} * layout.ffn;
      product(u, u + kPairColumns, columns, inner + column);
    }
  }
  finish_columns(e, column, columns);
}

/// Whoever finishes the last columns of a scale group quantises it, for all lines of the expert.
void ExpertStep::finish_columns(int e, int column, int columns) const {
  const CodeLayout codes{layout.ffn, layout.groups};
  const int length = codes.group_cols();
  for (int g = column / length; g <= (column + columns - 1) / length; ++g) {
    const int from = std::max(column, g * length), to = std::min(column + columns, (g + 1) * length);
    if (lists.missing[e * layout.groups + g].fetch_sub(to - from) != to - from) continue;
    for (int line = lists.begin[e]; line < lists.begin[e + 1]; ++line) {
      kernels.vector->quantise(lists.inner + std::ptrdiff_t{line} * layout.ffn + std::ptrdiff_t{g} * length,
                               length,
                               lists.codes + static_cast<std::size_t>(line) * codes.row_bytes() +
                                   static_cast<std::size_t>(g) * codes.group_bytes(),
                               codes.plane(), lists.scales + std::ptrdiff_t{line} * layout.groups + g);
    }
  }
}

const std::byte* ExpertStep::down_panel(int panel, int active) const {
  if (active == lists.active_count) panel += threads, active = 0;
  if (panel >= down_tiles()) return nullptr;
  return w.data[static_cast<std::size_t>(lists.active[active])].data() + layout.gate_up().bytes() +
         static_cast<std::size_t>(panel) * layout.down().panel_bytes();
}

/// Lines [first, first + count) of the expert: parts [count][groups][64].
void ExpertStep::multiply_down(int panel, int active, int first, int count, const std::byte* next,
                               float* parts) const {
  const CodeLayout codes{layout.ffn, layout.groups};
  const CodeRows rows{lists.codes + static_cast<std::size_t>(first) * codes.row_bytes(),
                      lists.scales + std::ptrdiff_t{first} * layout.groups, codes, nullptr, count};
  const RowTiles row_tiles(count, kernels.matrix->rows);
  PrefetchWalk walk = row_tiles.walk(next);
  for (int t = 0; t < row_tiles.tiles(); ++t) {
    multiply_rows(*kernels.matrix, rows, row_tiles.first(t), row_tiles.count(t), layout.down(),
                  down_panel(panel, active), walk, parts + row_tiles.first(t) * line_floats(), line_floats());
  }
}

/// Where the weights of a panel stay in the cache, their products should too: then few tokens at a time.
int ExpertStep::tokens_at_once() const {
  const std::size_t weights = static_cast<std::size_t>(lists.active_count) * layout.down().panel_bytes();
  return weights <= kCachedWeights ? kCachedTokens : choice.tokens;
}

void ExpertStep::down(int panel, const DownScratch& own) const {
  std::copy_n(lists.begin, w.experts, own.next);
  for (int first = 0, tokens = tokens_at_once(); first < choice.tokens; first += tokens)
    down_tokens(panel, first, std::min(choice.tokens, first + tokens), own);
}

/// The tokens' experts' parts of 64 columns, then their gated sum in gate order and the tree over the groups.
void ExpertStep::down_tokens(int panel, int first_token, int end_token, const DownScratch& own) const {
  float* parts = own.parts;
  for (int active = 0; active < lists.active_count; ++active) {
    const int e = lists.active[active], first = own.next[e];
    int end = first;
    while (end < lists.begin[e + 1] && lists.token[end] < end_token) ++end;
    if (end == first) continue;
    multiply_down(panel, active, first, end - first,
                  end_token == choice.tokens ? down_panel(panel, active + 1) : nullptr, parts);
    own.parts_of[e] = parts - first * line_floats();
    parts += (end - first) * line_floats();
    own.next[e] = end;
  }
  for (int t = first_token; t < end_token; ++t) mix_token(panel, t, own);
}

void ExpertStep::mix_token(int panel, int token, const DownScratch& own) const {
  const int column = panel * kPanelColumns, columns = std::min(kPanelColumns, layout.width - column);
  int count = 0;
  for (int entry = token * choice.per_token; entry < (token + 1) * choice.per_token; ++entry) {
    if (lists.line[entry] < 0) continue;
    own.chosen[count] = own.parts_of[choice.expert[entry]] + lists.line[entry] * line_floats();
    own.gates[count++] = choice.gate[entry];
  }
  if (count > 0) {
    kernels.vector->mix_experts(own.chosen, own.gates, count, layout.groups, kPanelColumns, columns,
                                y.row(token) + column);
  } else {
    std::fill_n(y.row(token) + column, columns, 0.0f);
  }
}

}  // namespace

void CpuBackend::route(MatrixView<const float> x, MatrixView<const float> w, float cap, bool renormalise,
                       const ExpertChoice& choice) {
  const auto experts = static_cast<int>(w.cols), width = static_cast<int>(x.cols);
  const float inverse_cap = cap != 0 ? static_cast<float>(1.0 / static_cast<double>(cap)) : 0;
  scratch_.reserve_own(bytes_of<RouterScratch>(width, experts));
  for_rows(choice.tokens, width * experts, [&](int t, int thread) {
    Carver carver = scratch_.own(thread);
    const RouterScratch own(carver, width, experts);
    vector().router(x.row(t), width, w.data, experts, cap, inverse_cap, own.lanes, own.spread, own.weight);
    const std::ptrdiff_t entry = std::ptrdiff_t{t} * choice.per_token;
    choose_experts(own.weight, experts, choice.per_token, renormalise, choice.expert + entry,
                   choice.gate + entry);
  });
}

void CpuBackend::prune(const ExpertChoice& choice, float ratio) {
  for (int t = 0; t < choice.tokens; ++t) {
    const std::ptrdiff_t entry = std::ptrdiff_t{t} * choice.per_token;
    const float least = ratio * choice.gate[entry];
    for (int j = 1; j < choice.per_token; ++j) {
      if (choice.gate[entry + j] < least) choice.expert[entry + j] = -1;
    }
  }
}

void CpuBackend::experts(const Quantised& x, const ExpertChoice& choice, const ExpertWeights& w,
                         MatrixView<float> y) {
  const ExpertLayout layout{w.width, w.ffn, w.groups};
  const int entries = choice.tokens * choice.per_token;
  scratch_.reserve_shared(bytes_of<ExpertLists>(entries, w.experts, layout));
  scratch_.reserve_own(std::max(bytes_of<PanelScratch>(matrix().rows, w.groups),
                                bytes_of<DownScratch>(entries, w.experts, w.groups, choice.per_token)));
  Carver carver = scratch_.shared();
  ExpertLists lists(carver, entries, w.experts, layout);
  group_by_expert(choice, w.experts, lists);
  for (int i = 0; i < w.experts * w.groups; ++i)
    lists.missing[i].store(w.ffn / w.groups, std::memory_order_relaxed);

  const ExpertStep step{kernels_, x, choice, w, y, lists, layout, pool_.threads()};
  pool_.parallel_for(step.gate_up_tiles(), [&](int tile, int thread) {
    Carver own = scratch_.own(thread);
    step.gate_up(tile, PanelScratch(own, matrix().rows, 1));
  });
  pool_.parallel_for(choice.tokens > 0 ? step.down_tiles() : 0, [&](int panel, int thread) {
    Carver own = scratch_.own(thread);
    step.down(panel, DownScratch(own, entries, w.experts, w.groups, choice.per_token));
  });
}

}  // namespace grokd::kernels

// One row after another through the steps of sections 6 and 7.

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "kernels/reference/sampling_steps.h"

namespace grokd::kernels::reference {
namespace {

constexpr double kGreedyBelow = 1e-5;

struct Choice {
  TokenId id = -1;
  std::size_t kept = 0;
};

Choice choose(std::span<float> x, const SamplingRow& row) {
  add_biases(x, row.biases);
  apply_penalties(x, row);
  if (row.temperature < kGreedyBelow) {
    const std::vector<TokenId> allowed = unmasked_ids(x.size(), row.mask);
    return allowed.empty() ? Choice{} : Choice{argmax(x, allowed), 1};
  }
  const std::vector<TokenId> ids = survivors(x, row);
  return {draw_token(x, ids, row), ids.size()};
}

void sample_row(std::span<float> x, const SamplingRow& row, SampledToken& out) {
  out.id = -1;
  out.logprob = 0;
  out.kept = 0;
  out.finite = std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
  if (!out.finite) return;

  const std::vector<float> logprob = logprobs(x);
  const std::vector<TokenId> best = best_ids(logprob, out.top.size());
  for (std::size_t i = 0; i < best.size(); ++i) out.top[i] = {best[i], logprob[best[i]]};

  const Choice choice = row.forced >= 0 ? Choice{row.forced, 0} : choose(x, row);
  out.id = choice.id;
  out.kept = static_cast<std::int32_t>(choice.kept);
  if (out.id >= 0) out.logprob = logprob[out.id];
}

}  // namespace

void ReferenceBackend::sample(MatrixView<float> logits, std::span<const SamplingRow> rows,
                              std::span<SampledToken> out) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::span<float> x(logits.row(static_cast<std::ptrdiff_t>(r)),
                             static_cast<std::size_t>(logits.cols));
    sample_row(x, rows[r], out[r]);
  }
}

}  // namespace grokd::kernels::reference

#include "engine/text_quality.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/text_model.h"

namespace grokd {
namespace {

/// Copies each layer's choice of experts from the device and counts it.
class RoutingCounter final : public ForwardObserver {
 public:
  RoutingCounter(TextModel& model, TextQuality& out) : model_(model), out_(out) {}
  void after_attention(int, kernels::MatrixView<const float>) override {}
  void after_layer(int, kernels::MatrixView<const float>, const kernels::ExpertChoice& choice) override {
    chosen_.resize(static_cast<std::size_t>(choice.tokens) * static_cast<std::size_t>(choice.per_token));
    model_.backend().download(chosen_.data(), choice.expert, chosen_.size() * sizeof(std::int32_t));
    for (const std::int32_t expert : chosen_) {
      expert < 0 ? ++out_.skipped : ++out_.expert_loads[static_cast<std::size_t>(expert)];
    }
  }

 private:
  TextModel& model_;
  TextQuality& out_;
  std::vector<std::int32_t> chosen_;
};

void score_window(TextModel& model, std::span<const TokenId> window, TextQuality& out) {
  RoutingCounter counter(model, out);
  const std::size_t step = static_cast<std::size_t>(model.step_tokens());
  for (std::size_t at = 0; at + 1 < window.size(); at += step) {
    const std::size_t rows = std::min(step, window.size() - 1 - at);
    std::vector<kernels::TokenLogprob> best(rows);
    std::vector<kernels::SampledToken> scores(rows);
    for (std::size_t i = 0; i < rows; ++i) scores[i].top = std::span(best).subspan(i, 1);
    model.feed(window.subspan(at, rows), static_cast<int>(at), window.subspan(at + 1, rows), scores,
               &counter);
    for (std::size_t i = 0; i < rows; ++i) {
      out.logprobs.push_back(scores[i].logprob);
      out.best.push_back(best[i].id);
    }
  }
}

double median_step(TextModel& model, std::span<const TokenId> ids, int steps) {
  std::vector<double> seconds;
  for (int i = 0; i < std::min(steps, static_cast<int>(ids.size()) - 1); ++i) {
    kernels::SampledToken token;
    const auto at = static_cast<std::size_t>(i);
    const auto start = std::chrono::steady_clock::now();
    model.feed(ids.subspan(at, 1), i, ids.subspan(at + 1, 1), {&token, 1});
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  if (seconds.empty()) return 0;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

template <class Add>
double mean_over(std::size_t count, Add add) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += add(i);
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

double TextQuality::perplexity() const {
  return std::exp(-mean_over(logprobs.size(), [&](std::size_t i) { return logprobs[i]; }));
}

double TextQuality::imbalance() const {
  const auto total = std::accumulate(expert_loads.begin(), expert_loads.end(), std::int64_t{0});
  if (total == 0) return 0;
  const auto most = *std::max_element(expert_loads.begin(), expert_loads.end());
  return static_cast<double>(most) * static_cast<double>(expert_loads.size()) / static_cast<double>(total);
}

double TextQuality::skipped_share() const {
  const auto taken = std::accumulate(expert_loads.begin(), expert_loads.end(), std::int64_t{0});
  return taken + skipped == 0 ? 0 : static_cast<double>(skipped) / static_cast<double>(taken + skipped);
}

TextQuality measure_quality(const std::string& model_dir, const ModelConfig& config,
                            const RunnerOptions& options, std::span<const TokenId> ids, int single_steps) {
  TextModel model(model_dir, config, options, {});
  TextQuality quality;
  quality.expert_loads.resize(static_cast<std::size_t>(config.num_experts));
  const auto longest = static_cast<std::size_t>(config.sequence_len);
  for (auto rest = ids; !rest.empty(); rest = rest.subspan(std::min(rest.size(), longest))) {
    score_window(model, rest.first(std::min(rest.size(), longest)), quality);
  }
  quality.step_seconds = median_step(model, ids.first(std::min(ids.size(), longest)), single_steps);
  return quality;
}

double agreement(const TextQuality& a, const TextQuality& b) {
  return mean_over(a.best.size(), [&](std::size_t i) { return a.best[i] == b.best[i] ? 1.0 : 0.0; });
}

double mean_difference(const TextQuality& a, const TextQuality& b) {
  return mean_over(a.logprobs.size(), [&](std::size_t i) {
    return std::abs(static_cast<double>(a.logprobs[i]) - static_cast<double>(b.logprobs[i]));
  });
}

}  // namespace grokd

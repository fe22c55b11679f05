#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <stdexcept>

namespace grokd {

namespace {

/// Scores one window, appended to `logprobs`.
void score_window(Engine& engine, std::span<const TokenId> ids, std::vector<float>& logprobs) {
  Request request;
  request.id = "score";
  request.prompt.assign(ids.begin(), ids.end());
  request.score_prompt = true;
  request.sampling.top_logprobs = 0;
  std::promise<std::string> ended;
  auto sink = [&](RequestOutput&& out) {
    for (std::size_t i = 1; i < out.prompt_scores.size(); ++i)
      logprobs.push_back(out.prompt_scores[i].logprob);
    if (out.finish != FinishReason::none) ended.set_value(out.error);
  };
  auto submitted = engine.submit(std::move(request), sink);
  if (std::holds_alternative<Refused>(submitted))
    throw std::runtime_error("the engine takes no more requests");
  const std::string error = ended.get_future().get();
  if (!error.empty()) throw std::runtime_error(error);
}

}  // namespace

double Score::sum() const {
  double total = 0;
  for (const float lp : logprobs) total += lp;
  return total;
}

double Score::perplexity() const {
  return logprobs.empty() ? 1 : std::exp(-sum() / static_cast<double>(logprobs.size()));
}

Score score(Engine& engine, std::span<const TokenId> ids, int window) {
  Score result;
  while (!ids.empty()) {
    const auto part = ids.first(std::min<std::size_t>(ids.size(), window));
    score_window(engine, part, result.logprobs);
    result.windows += 1;
    ids = ids.subspan(part.size());
  }
  return result;
}

}  // namespace grokd

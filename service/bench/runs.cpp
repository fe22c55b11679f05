#include "service/bench/runs.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "engine/checkpoint/progress.h"

namespace grokd::bench {

namespace {

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

Subject::Subject(const std::string& model_dir, const RunnerOptions& options)
    : config_(load_model_config(model_dir)), tokenizer_(load_tokenizer(model_dir, config_)) {
  EngineConfig engine_config;
  engine_config.slots = options.max_sequences;
  engine_config.step_tokens = options.max_batch_tokens;
  engine_config.special = special_tokens(config_);
  engine_ = std::make_unique<Engine>(load_model(model_dir, config_, options, print_progress()), *tokenizer_,
                                     engine_config);
}

Request Subject::make_request(int prompt_tokens, int max_tokens) {
  Request request;
  request.id = "bench";
  std::uint64_t state = ++prompts_made_ * 0x9E3779B97F4A7C15u;
  for (int i = 0; i < prompt_tokens; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    request.prompt.push_back(4 + static_cast<int>((state >> 33) % (config_.vocab_size - 4)));
  }
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

std::vector<RequestOutput> Subject::run_all(std::vector<Request> requests) {
  std::vector<RequestOutput> last(requests.size());
  std::mutex mutex;
  std::condition_variable all_ended;
  std::size_t ended = 0;
  std::vector<RequestHandle> handles;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto sink = [&, i](RequestOutput&& out) {
      if (out.finish == FinishReason::none) return;
      std::lock_guard lock(mutex);
      last[i] = std::move(out);
      ended += 1;
      all_ended.notify_one();
    };
    auto submitted = engine_->submit(std::move(requests[i]), sink);
    if (std::holds_alternative<Refused>(submitted))
      throw std::runtime_error("the engine refused a bench request");
    handles.push_back(std::get<RequestHandle>(std::move(submitted)));
  }
  std::unique_lock lock(mutex);
  all_ended.wait(lock, [&] { return ended == last.size(); });
  for (const RequestOutput& out : last) {
    if (out.finish == FinishReason::error) throw std::runtime_error(out.error);
  }
  return last;
}

double Subject::decode_rate(int sequences, int tokens) {
  std::vector<Request> requests;
  for (int i = 0; i < sequences; ++i) requests.push_back(make_request(8, tokens));
  const auto last = run_all(std::move(requests));
  auto first = Clock::time_point::min(), end = Clock::time_point::min();
  for (const RequestOutput& out : last) {
    first = std::max(first, out.times.first_token);
    end = std::max(end, out.times.finished);
  }
  return sequences * (tokens - 1) / seconds(end - first);
}

double Subject::prefill_rate(int tokens) {
  std::vector<Request> requests;
  requests.push_back(make_request(tokens, 1));
  const auto last = run_all(std::move(requests));
  return tokens / seconds(last[0].times.finished - last[0].times.submitted);
}

double Subject::answer_seconds(int tokens) {
  std::vector<Request> requests;
  requests.push_back(make_request(8, tokens));
  const auto last = run_all(std::move(requests));
  return seconds(last[0].times.finished - last[0].times.submitted);
}

}  // namespace grokd::bench

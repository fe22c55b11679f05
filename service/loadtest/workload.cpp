#include "service/loadtest/workload.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "service/bench/machine.h"

namespace grokd::loadtest {

namespace asio = boost::asio;

namespace {

/// Shares of prompt lengths; `shared` tokens at the front are the same in all prompts.
struct Mix {
  std::string_view name;
  int lengths[3];
  int percent[3];
  int shared;
};

constexpr Mix kMixes[] = {
    {"mixed", {32, 128, 512}, {30, 50, 20}, 0},
    {"short", {32, 0, 0}, {100, 0, 0}, 0},
    {"long", {512, 0, 0}, {100, 0, 0}, 0},
    {"shared", {544, 0, 0}, {100, 0, 0}, 512},
};

const Mix& find_mix(const std::string& name) {
  for (const Mix& mix : kMixes) {
    if (mix.name == name) return mix;
  }
  throw std::invalid_argument("--mix: " + name + " is none of " + mix_names());
}

int draw_length(const Mix& mix, std::mt19937_64& random) {
  int point = static_cast<int>(random() % 100);
  for (int i = 0; i < 3; ++i) {
    if (point < mix.percent[i]) return mix.lengths[i];
    point -= mix.percent[i];
  }
  return mix.lengths[0];
}

std::string make_prompt(const std::vector<int>& ids, bool as_text) {
  if (!as_text) return fmt::format("[{}]", fmt::join(ids, ","));
  constexpr const char* kWords[] = {"time", "fox", "river", "small", "green", "house", "walked", "song"};
  std::string text = "\"";
  for (const int id : ids) text += std::string(kWords[id % std::size(kWords)]) + " ";
  return text + "\"";
}

std::string make_body(const Options& options, bool priority, const std::vector<int>& ids) {
  std::string more;
  if (!options.model.empty()) more += fmt::format("\"model\":\"{}\",", options.model);
  if (options.timeout > 0) more += fmt::format("\"timeout\":{},", options.timeout);
  if (priority) more += "\"service_tier\":\"priority\",";
  return fmt::format(
      "{{{}\"prompt\":{},\"max_tokens\":{},\"temperature\":0,\"stream\":true,\"ignore_eos\":true}}", more,
      make_prompt(ids, options.text_prompts), options.max_tokens);
}

double milliseconds(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// Hands out the requests to the coroutines that send them.
struct Sender {
  const Options& options;
  std::vector<std::string> bodies;
  std::vector<Timeline> timelines;
  const std::function<void(int)>& on_progress;
  std::size_t next = 0;
  int done = 0;

  asio::awaitable<void> send(std::size_t i) {
    timelines[i] = co_await stream_completion(options.target, std::move(bodies[i]),
                                              std::chrono::seconds(options.limit_seconds));
    on_progress(++done);
  }
  asio::awaitable<void> send_until_none() {
    while (next < bodies.size()) co_await send(next++);
  }
  asio::awaitable<void> send_at(std::size_t i, Clock::time_point when) {
    asio::steady_timer timer(co_await asio::this_coro::executor, when);
    co_await timer.async_wait(asio::use_awaitable);
    co_await send(i);
  }
};

}  // namespace

std::string mix_names() {
  std::string names;
  for (const Mix& mix : kMixes) names += (names.empty() ? "" : ", ") + std::string(mix.name);
  return names;
}

std::vector<std::string> make_bodies(const Options& options) {
  const Mix& mix = find_mix(options.mix);
  std::mt19937_64 random(options.seed);
  const auto draw_id = [&] {
    return 4 + static_cast<int>(random() % static_cast<std::uint64_t>(options.vocab - 4));
  };
  std::vector<int> shared(mix.shared);
  std::generate(shared.begin(), shared.end(), draw_id);
  std::vector<std::string> bodies;
  for (int i = 0; i < options.requests; ++i) {
    std::vector<int> ids = shared;
    const int length = draw_length(mix, random);
    while (static_cast<int>(ids.size()) < length) ids.push_back(draw_id());
    bodies.push_back(make_body(options, is_priority(options, i), ids));
  }
  return bodies;
}

bool is_priority(const Options& options, int i) {
  return std::floor((i + 1) * options.priority_share) > std::floor(i * options.priority_share);
}

std::vector<double> arrival_times(const Options& options) {
  constexpr int kBurst = 8;
  std::mt19937_64 random(options.seed + 1);
  const int group = options.bursty ? kBurst : 1;
  std::exponential_distribution<double> gap(options.rate / group);
  std::vector<double> times;
  double now = 0;
  for (int i = 0; i < options.requests; ++i) {
    if (i % group == 0) now += gap(random);
    times.push_back(now);
  }
  return times;
}

Distribution describe(const std::vector<double>& values) {
  if (values.empty()) return {};
  Distribution d;
  d.p50 = bench::percentile(values, 0.5);
  d.p90 = bench::percentile(values, 0.9);
  d.p99 = bench::percentile(values, 0.99);
  d.p999 = bench::percentile(values, 0.999);
  d.max = bench::percentile(values, 1);
  d.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - d.mean) * (v - d.mean);
  d.std = std::sqrt(squares / static_cast<double>(values.size()));
  return d;
}

namespace {

/// An answer that came whole, or was cut at its deadline.
void add_answer(Result& result, const Timeline& t, bool priority, const Options& options) {
  result.completed += 1;
  result.output_tokens += t.events.size();
  const double first = milliseconds(t.events.front() - t.sent), whole = milliseconds(t.ended - t.sent);
  result.ttft_ms.push_back(first);
  if (priority) result.priority_ttft_ms.push_back(first);
  result.end_to_end_ms.push_back(whole);
  double worst = 0;
  for (std::size_t i = 1; i < t.events.size(); ++i) {
    result.inter_token_ms.push_back(milliseconds(t.events[i] - t.events[i - 1]));
    worst = std::max(worst, result.inter_token_ms.back());
  }
  const bool late = options.timeout > 0 && whole >= 1e3 * options.timeout;
  result.late += late;
  result.within_slo += !late && first <= options.slo_ttft_ms && worst <= options.slo_inter_token_ms;
}

}  // namespace

Result evaluate(const std::vector<Timeline>& timelines, const Options& options) {
  Result result;
  auto first = Clock::time_point::max(), last = Clock::time_point::min();
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    const Timeline& t = timelines[i];
    first = std::min(first, t.sent);
    last = std::max(last, t.ended);
    if (t.status == 429 || t.status == 503) {
      result.refused += 1;
      result.refusal_ms.push_back(milliseconds(t.answered - t.sent));
    } else if (t.status == 200 && t.error.empty() && !t.events.empty()) {
      add_answer(result, t, is_priority(options, static_cast<int>(i)), options);
    } else {
      result.failed += 1;
      if (result.first_error.empty())
        result.first_error = t.error.empty() ? "status " + std::to_string(t.status) : t.error;
    }
  }
  if (!timelines.empty()) result.seconds = std::chrono::duration<double>(last - first).count();
  return result;
}

std::vector<Timeline> run(const Options& options, const std::function<void(int)>& on_progress) {
  asio::io_context io(1);
  Sender sender{options, make_bodies(options), std::vector<Timeline>(options.requests), on_progress};
  if (options.rate > 0) {
    const auto start = Clock::now();
    const auto times = arrival_times(options);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto after = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(times[i]));
      asio::co_spawn(io, sender.send_at(i, start + after), asio::detached);
    }
  } else {
    for (int i = 0; i < options.concurrency; ++i)
      asio::co_spawn(io, sender.send_until_none(), asio::detached);
  }
  io.run();
  return std::move(sender.timelines);
}

}  // namespace grokd::loadtest

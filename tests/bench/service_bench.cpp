// The service without a model: an instant runner behind the real server, driven by 64 streams. Prints events
// a second at full speed, then, at half of that rate, the service's own share of a token and how fast /livez
// answers. grokd_service_bench [streams] [tokens]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "service/bench/machine.h"
#include "service/loadtest/workload.h"
#include "tests/support/test_server.h"

using namespace grokd;
using Seconds = std::chrono::duration<double>;

namespace {

/// Gives every sequence the same token, at once or at a fixed pace.
class InstantRunner final : public ModelRunner {
 public:
  InstantRunner(RunnerLimits limits, const std::atomic<double>& step_seconds)
      : limits_(limits), step_seconds_(step_seconds) {}
  const RunnerLimits& limits() const override { return limits_; }
  void run(const Batch& batch, std::span<kernels::SampledToken> sampled) override {
    for (auto& token : sampled) token.id = test::FakeTokenizer::kFirstPiece;
    (void)batch;
    const Seconds pace(step_seconds_.load());
    if (pace.count() <= 0) return;
    next_ = std::max(next_ + std::chrono::duration_cast<Clock::duration>(pace), Clock::now());
    std::this_thread::sleep_until(next_);
  }

 private:
  RunnerLimits limits_;
  const std::atomic<double>& step_seconds_;
  Clock::time_point next_{};
};

struct Run {
  double events_per_second = 0;
  std::vector<double> livez_seconds;
};

Run drive(int port, int streams, int tokens) {
  loadtest::Options options;
  options.target.port = std::to_string(port);
  options.mix = "short";
  options.vocab = 8;
  options.requests = options.concurrency = streams;
  options.max_tokens = tokens;
  Run run;
  std::atomic<bool> over = false;
  std::jthread prober([&] {
    while (!over) {
      const auto start = Clock::now();
      test::get(port, "/livez");
      run.livez_seconds.push_back(Seconds(Clock::now() - start).count());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const auto result = loadtest::evaluate(loadtest::run(options, [](int) {}), options);
  over = true;
  prober.join();
  if (result.failed + result.refused > 0)
    std::printf("%d failed: %s\n", result.failed, result.first_error.c_str());
  run.events_per_second = static_cast<double>(result.output_tokens) / result.seconds;
  return run;
}

/// The bucket bound below which 99 % of a histogram lie, from the text of /metrics; in seconds.
double histogram_p99(const std::string& text, const std::string& name) {
  std::vector<std::pair<double, double>> buckets;  // bound, cumulative count
  const std::string prefix = "\n" + name + "_bucket{";
  for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos; ++at) {
    const std::size_t le = text.find("le=\"", at) + 4;
    const std::size_t end = text.find('\n', le);
    const double bound = text.compare(le, 4, "+Inf") == 0 ? 1e9 : std::stod(text.substr(le));
    buckets.emplace_back(bound, std::stod(text.substr(text.rfind(' ', end), end)));
  }
  for (const auto& [bound, count] : buckets) {
    if (count >= 0.99 * buckets.back().second) return bound;
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 64;
  const int tokens = argc > 2 ? std::atoi(argv[2]) : 20000;
  std::atomic<double> pace = 0;
  ServerConfig config = test::ServerSetup::quick_config();
  config.engine.slots = streams;
  config.engine.step_tokens = std::max(512, 2 * streams);
  config.engine.max_waiting = streams;
  test::ServerSetup setup;
  setup.config = config;
  setup.context = tokens + 64;
  setup.load = false;
  const auto measure = [&](double step_seconds, int count, std::string& metrics) {
    pace = step_seconds;
    test::TestServer server(setup);
    auto model = std::make_unique<LoadedModel>();
    model->tokenizer = std::make_unique<test::FakeTokenizer>(setup.pieces);
    model->fingerprint = "bench";
    RunnerLimits limits;
    limits.vocab_size = model->tokenizer->vocab_size();
    limits.context = setup.context;
    limits.max_batch_tokens = config.engine.step_tokens;
    limits.max_sequences = limits.max_logit_rows = streams;
    limits.kv_pages = streams * (setup.context / kernels::kPagePositions + 1);
    model->engine = std::make_unique<Engine>(std::make_unique<InstantRunner>(limits, pace), *model->tokenizer,
                                             config.engine);
    server.server().host().set_loaded(std::move(model));
    const Run run = drive(server.port(), streams, count);
    metrics = test::get(server.port(), "/metrics").body;
    return run;
  };
  std::string metrics;
  const Run full = measure(0, tokens, metrics);
  std::printf("%d streams at full speed: %.0f events/s\n", streams, full.events_per_second);
  const double half = full.events_per_second / 2;
  const Run steady = measure(streams / half, tokens / 2, metrics);
  std::printf("at half of it: %.0f events/s, sink to socket P99 <= %.0f us, /livez worst of %zu: %.1f ms\n",
              steady.events_per_second, histogram_p99(metrics, "grokd_token_delivery_seconds") * 1e6,
              steady.livez_seconds.size(), bench::percentile(steady.livez_seconds, 1) * 1e3);
  return 0;
}

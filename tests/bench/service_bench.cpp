// The service without a model: an instant runner behind the real server and 64 streams. Prints how many
// events a second it can send, then, at lower rates, the service's own share of a token (from the engine's
// sink to the socket) and how fast /livez answers. grokd_service_bench [streams] [seconds a rate]

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "service/bench/machine.h"
#include "tests/support/test_server.h"

using namespace grokd;
using Seconds = std::chrono::duration<double>;

namespace {

/// Evenly spaced points of time; none is made up for when one was missed.
class Pace {
 public:
  explicit Pace(double interval)
      : interval_(std::chrono::duration_cast<Clock::duration>(Seconds(interval))) {}
  void wait() {
    if (interval_.count() <= 0) return;
    prctl(PR_SET_TIMERSLACK, 1UL);  // else the system adds 50 us to every sleep
    const auto now = Clock::now();
    next_ = std::max(next_ + interval_, now - kPatience);
    if (next_ > now + kPatience) std::this_thread::sleep_until(next_);
  }

 private:
  static constexpr auto kPatience = std::chrono::microseconds(20);  // shorter sleeps cost more than they last
  const Clock::duration interval_;
  Clock::time_point next_{};
};

/// What the system itself takes for the tokens of one step: seconds of a bare loop of sends, one event to
/// each of `streams` sockets of this machine, many times.
std::vector<double> bare_send_seconds(int streams) {
  constexpr int kTimes = 400, kEventBytes = 260;
  const std::string event(kEventBytes, 'x');
  boost::asio::io_context io;
  using boost::asio::ip::tcp;
  tcp::acceptor acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  std::vector<test::HttpClient> readers;
  std::vector<tcp::socket> senders;
  for (int i = 0; i < streams; ++i) {
    readers.emplace_back(acceptor.local_endpoint().port());
    senders.push_back(acceptor.accept());
    senders.back().set_option(tcp::no_delay(true));
  }
  std::vector<double> seconds;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = Clock::now();
    for (auto& socket : senders) ::send(socket.native_handle(), event.data(), event.size(), MSG_NOSIGNAL);
    seconds.push_back(Seconds(Clock::now() - start).count());
    for (auto& reader : readers) reader.discard();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return seconds;
}

/// Gives every sequence the same token.
class InstantRunner final : public ModelRunner {
 public:
  InstantRunner(RunnerLimits limits, double step_seconds) : limits_(limits), pace_(step_seconds) {}
  const RunnerLimits& limits() const override { return limits_; }
  void run(const Batch&, std::span<kernels::SampledToken> sampled) override {
    for (auto& token : sampled) token.id = test::FakeTokenizer::kFirstPiece;
    pace_.wait();
  }

 private:
  RunnerLimits limits_;
  Pace pace_;
};

struct Run {
  double events_per_second = 0;
  std::vector<double> livez_seconds;
  std::string metrics;
};

/// Reads from all streams now and then, many events at a time, so as to leave the machine to the server.
void read_to_the_end(std::vector<test::HttpClient>& streams) {
  std::size_t open = streams.size();
  std::vector<bool> ended(streams.size(), false);
  while (open > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (ended[i] || streams[i].discard()) continue;
      ended[i] = true;
      --open;
    }
  }
}

Run drive(int port, int streams, int tokens) {
  Run run;
  std::atomic<bool> over = false;
  std::jthread prober([&] {
    while (!over) {
      const auto start = Clock::now();
      test::get(port, "/livez");
      run.livez_seconds.push_back(Seconds(Clock::now() - start).count());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const std::string body = R"({"prompt":"Hi","temperature":0,"ignore_eos":true,"stream":true,"max_tokens":)" +
                           std::to_string(tokens) + "}";
  const auto start = Clock::now();
  std::vector<test::HttpClient> clients;
  for (int i = 0; i < streams; ++i) {
    clients.emplace_back(port);
    clients.back().send(test::request_text("POST", "/v1/completions", body, "Connection: close\r\n"));
  }
  read_to_the_end(clients);
  const double seconds = Seconds(Clock::now() - start).count();
  over = true;
  prober.join();
  run.metrics = test::get(port, "/metrics").body;
  // Not the tokens: those of a stream that falls far behind share events.
  const std::string count = "\ngrokd_token_delivery_seconds_count{";
  const std::size_t line = run.metrics.find(count);
  run.events_per_second = std::stod(run.metrics.substr(run.metrics.find('}', line) + 1)) / seconds;
  return run;
}

/// `events_per_second` 0: as many as possible. The tokens of all streams come at once, as those of a step do.
std::unique_ptr<LoadedModel> instant_model(const test::ServerSetup& setup, double events_per_second) {
  const int streams = setup.config.engine.slots;
  auto model = std::make_unique<LoadedModel>();
  model->tokenizer = std::make_unique<test::FakeTokenizer>(setup.pieces);
  model->fingerprint = "bench";
  model->grammars = std::make_unique<GrammarCompiler>(*model->tokenizer, model->tokenizer->vocab_size(),
                                                      std::vector<TokenId>{2});
  RunnerLimits limits;
  limits.vocab_size = model->tokenizer->vocab_size();
  limits.context = setup.context;
  limits.max_batch_tokens = setup.config.engine.step_tokens;
  limits.max_sequences = limits.max_logit_rows = streams;
  limits.kv_pages = streams * (setup.context / kernels::kPagePositions + 1);
  const double step_seconds = events_per_second > 0 ? streams / events_per_second : 0;
  auto runner = std::make_unique<InstantRunner>(limits, step_seconds);
  model->engine = std::make_unique<Replicas>(
      std::make_unique<Engine>(std::move(runner), *model->tokenizer, setup.config.engine));
  return model;
}

Run measure(int streams, int tokens, double events_per_second) {
  test::ServerSetup setup;
  setup.config = test::ServerSetup::quick_config();
  setup.config.io_threads = setup.config.workers = 0;  // as many as grokd serve takes
  setup.config.engine.slots = setup.config.engine.max_waiting = streams;
  setup.config.engine.step_tokens = std::max(512, 2 * streams);
  setup.context = tokens + 64;
  setup.load = false;
  test::TestServer server(setup);
  server.server().host().set_loaded(instant_model(setup, events_per_second));
  return drive(server.port(), streams, tokens);
}

/// The bucket bound below which this share of a histogram lies, from the text of /metrics; in seconds.
double quantile(const std::string& text, const std::string& name, double share) {
  std::vector<std::pair<double, double>> buckets;  // bound, cumulative count
  const std::string prefix = "\n" + name + "_bucket{";
  for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos; ++at) {
    const std::size_t le = text.find("le=\"", at) + 4;
    const std::size_t end = text.find('\n', le);
    const double bound = text.compare(le, 4, "+Inf") == 0 ? 1e9 : std::stod(text.substr(le));
    buckets.emplace_back(bound, std::stod(text.substr(text.rfind(' ', end), end)));
  }
  for (const auto& [bound, count] : buckets) {
    if (count >= share * buckets.back().second) return bound;
  }
  return -1;
}

void report(int streams, const Run& run) {
  const auto delivery = [&](double share) {
    return quantile(run.metrics, "grokd_token_delivery_seconds", share) * 1e6;
  };
  std::printf(
      "%3d streams, %8.0f events/s: sink to socket P50 <= %.0f us, P99 <= %.0f us; /livez P99 of %zu %.1f "
      "ms\n",
      streams, run.events_per_second, delivery(0.5), delivery(0.99), run.livez_seconds.size(),
      bench::percentile(run.livez_seconds, 0.99) * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 64;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 3;
  const std::vector<double> bare = bare_send_seconds(streams);
  std::printf("%3d streams, a bare loop of sends: P50 %.0f us, P99 %.0f us\n", streams,
              bench::percentile(bare, 0.5) * 1e6, bench::percentile(bare, 0.99) * 1e6);
  const Run full = measure(streams, 20'000, 0);
  std::printf("%3d streams, as fast as they go: %.0f events/s\n", streams, full.events_per_second);
  for (const double rate : {full.events_per_second / 2, full.events_per_second / 8, 50'000., 10'000.}) {
    report(streams, measure(streams, static_cast<int>(rate * seconds / streams), rate));
  }
  for (const int fewer : {1, 8}) {
    report(fewer, measure(fewer, static_cast<int>(1'000 * seconds), 1'000. * fewer));
  }
  return 0;
}

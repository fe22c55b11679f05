#include "service/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include "kernels/backend.h"
#include "kernels/device_monitor.h"

namespace grokd {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

const Buckets kLatency = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                          1,     2.5,    5,     10,   30,    60,   120, 300};
const Buckets kShortLatency = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                               0.025,  0.05,    0.1,    0.25,  0.5,    1,     5};
const Buckets kDelivery = {0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005,
                           0.001,   0.002,   0.005,   0.01,   0.1,    1};
const Buckets kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};

constexpr std::array<std::string_view, 5> kEndings = {"stop", "length", "abort", "error", "timeout"};
constexpr std::array<std::string_view, 6> kRejections = {"queue_full", "deadline", "draining",
                                                         "failed",     "loading",  "key_limit"};

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string_view ending_name(Ending ending) { return kEndings[static_cast<std::size_t>(ending)]; }

class Metrics::Impl {
 public:
  Impl(const std::string& model_id, bool vllm_names) : model_{{"model", model_id}}, vllm_names_(vllm_names) {
    for (std::size_t i = 0; i < kEndings.size(); ++i) {
      endings[i] = &counter("grokd_request_finished_total", "Sequences that ended, by how",
                            {{"reason", std::string(kEndings[i])}});
    }
    for (std::size_t i = 0; i < kRejections.size(); ++i) {
      rejections[i] = &counter("grokd_rejected_total", "Requests refused for want of room, by why",
                               {{"reason", std::string(kRejections[i])}});
    }
    gauge("grokd_build_info", "Version of the server", {{"version", GROKD_VERSION}}).Set(1);
  }

  Counter& counter(const std::string& name, const std::string& help, Labels labels = {}) {
    labels.insert(model_.begin(), model_.end());
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Gauge& gauge(const std::string& name, const std::string& help, Labels labels = {}) {
    labels.insert(model_.begin(), model_.end());
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(model_, buckets);
  }
  void update(const EngineStats& stats);
  void update_devices();

 private:
  void describe_cache(const EngineStats& stats);

  const Labels model_;
  const bool vllm_names_;

 public:
  prometheus::Registry registry;
  std::array<Counter*, kEndings.size()> endings{};
  std::array<Counter*, kRejections.size()> rejections{};
  Counter& prompt_tokens = counter("grokd_prompt_tokens_total", "Prompt tokens fed to the model");
  Counter& generation_tokens = counter("grokd_generation_tokens_total", "Tokens generated");
  Counter& cached_tokens =
      counter("grokd_cached_prompt_tokens_total", "Prompt tokens found in the prefix cache");
  Counter& proposed_tokens =
      counter("grokd_speculation_proposed_tokens_total", "Tokens fed that the text only suggested");
  Counter& accepted_tokens =
      counter("grokd_speculation_accepted_tokens_total", "Those of them that were drawn");
  Counter& preemptions =
      counter("grokd_preemptions_total", "Sequences that left their slot to a higher tier");
  Gauge& step_error = gauge("grokd_engine_step_prediction_error_ratio",
                            "Mean relative error of the predicted time of a step");
  Gauge& running = gauge("grokd_requests_running", "Sequences in a slot");
  Gauge& waiting = gauge("grokd_requests_waiting", "Sequences waiting for a slot");
  Gauge& kv_usage = gauge("grokd_kv_cache_usage_ratio", "Pages of the KV cache in use, 0 to 1");
  Gauge& last_step =
      gauge("grokd_engine_last_step_timestamp_seconds", "When the engine last finished a step");
  Gauge& connections = gauge("grokd_connections", "Open connections");
  Histogram& first_token =
      histogram("grokd_time_to_first_token_seconds", "From submission to the first token", kLatency);
  Histogram& inter_token =
      histogram("grokd_inter_token_latency_seconds", "Between two tokens of a sequence", kShortLatency);
  Histogram& delivery =
      histogram("grokd_token_delivery_seconds",
                "From the engine's handing out of text to its bytes being written", kDelivery);
  Histogram& end_to_end =
      histogram("grokd_e2e_request_latency_seconds", "From submission to the last token", kLatency);
  Histogram& queue = histogram("grokd_queue_seconds", "From submission to a slot", kLatency);
  Histogram& prompt_size = histogram("grokd_prompt_tokens", "Prompt tokens of a sequence", kTokens);
  Histogram& answer_size = histogram("grokd_generated_tokens", "Generated tokens of a sequence", kTokens);
  Histogram& step = histogram("grokd_engine_step_seconds", "Time of an engine step", kShortLatency);

 private:
  std::mutex update_mutex_;
  kernels::DeviceMonitor devices_;
};

void Metrics::Impl::describe_cache(const EngineStats& stats) {
  const Labels shape = {{"block_size", std::to_string(kernels::kPagePositions)},
                        {"num_blocks", std::to_string(stats.kv_pages_total)}};
  gauge("grokd_cache_config_info", "Shape of the KV cache", shape).Set(1);
  if (!vllm_names_) return;
  Labels named = {{"block_size", shape.at("block_size")}, {"num_gpu_blocks", shape.at("num_blocks")}};
  gauge("vllm:cache_config_info", "As vLLM names it", named).Set(1);
}

void Metrics::Impl::update(const EngineStats& stats) {
  std::lock_guard lock(update_mutex_);
  running.Set(stats.running);
  waiting.Set(stats.waiting);
  const double usage =
      stats.kv_pages_total > 0 ? static_cast<double>(stats.kv_pages_used) / stats.kv_pages_total : 0;
  kv_usage.Set(usage);
  prompt_tokens.Increment(static_cast<double>(stats.prompt_tokens) - prompt_tokens.Value());
  generation_tokens.Increment(static_cast<double>(stats.generated_tokens) - generation_tokens.Value());
  proposed_tokens.Increment(static_cast<double>(stats.proposed_tokens) - proposed_tokens.Value());
  accepted_tokens.Increment(static_cast<double>(stats.accepted_tokens) - accepted_tokens.Value());
  preemptions.Increment(static_cast<double>(stats.preemptions) - preemptions.Value());
  step_error.Set(stats.step_prediction_error);
  describe_cache(stats);
  if (!vllm_names_) return;
  gauge("vllm:num_requests_running", "As vLLM names it").Set(stats.running);
  gauge("vllm:num_requests_waiting", "As vLLM names it").Set(stats.waiting);
  gauge("vllm:kv_cache_usage_perc", "As vLLM names it").Set(usage);
  gauge("vllm:gpu_cache_usage_perc", "As vLLM names it").Set(usage);
}

void Metrics::Impl::update_devices() {
  std::lock_guard lock(update_mutex_);
  for (const kernels::DeviceState& device : devices_.read()) {
    const Labels gpu = {{"gpu", std::to_string(device.device)}};
    gauge("grokd_gpu_clock_hertz", "Clock of the multiprocessors", gpu).Set(1e6 * device.clock_mhz);
    gauge("grokd_gpu_temperature_celsius", "Temperature of the die", gpu).Set(device.temperature);
    gauge("grokd_gpu_memory_used_bytes", "Device memory in use", gpu)
        .Set(static_cast<double>(device.memory_used));
    gauge("grokd_gpu_memory_bytes", "Device memory", gpu).Set(static_cast<double>(device.memory_total));
  }
}

Metrics::Metrics(const std::string& model_id, bool vllm_names)
    : impl_(std::make_unique<Impl>(model_id, vllm_names)) {}
Metrics::~Metrics() = default;

void Metrics::count_request(std::string_view route, int status) {
  impl_
      ->counter("grokd_requests_total", "Answers, by route and status",
                {{"route", std::string(route)}, {"code", std::to_string(status)}})
      .Increment();
}

void Metrics::count_rejection(RejectionReason reason) {
  impl_->rejections[static_cast<std::size_t>(reason)]->Increment();
}

void Metrics::count_ending(Ending ending) { impl_->endings[static_cast<std::size_t>(ending)]->Increment(); }

void Metrics::observe_sequence(const RequestOutput& last) {
  const RequestTimes& times = last.times;
  impl_->prompt_size.Observe(last.prompt_tokens);
  impl_->answer_size.Observe(last.completion_tokens);
  impl_->cached_tokens.Increment(last.cached_tokens);
  if (times.admitted == Clock::time_point()) return;  // ended before it had a slot
  impl_->queue.Observe(seconds_between(times.submitted, times.admitted));
  impl_->end_to_end.Observe(seconds_between(times.submitted, times.finished));
  if (times.first_token != Clock::time_point()) {
    impl_->first_token.Observe(seconds_between(times.submitted, times.first_token));
  }
}

void Metrics::observe_inter_token(double seconds, int tokens) {
  for (int i = 0; i < tokens; ++i) impl_->inter_token.Observe(seconds / tokens);
}

void Metrics::observe_delivery(double seconds) { impl_->delivery.Observe(seconds); }

void Metrics::observe_step(const StepRecord& step) {
  impl_->step.Observe(step.seconds);
  impl_->last_step.SetToCurrentTime();
}

void Metrics::count_traces(int requests, bool sent) {
  impl_
      ->counter("grokd_traces_total", "Requests whose spans went to the collector, or did not",
                {{"outcome", sent ? "sent" : "dropped"}})
      .Increment(requests);
}

void Metrics::set_connections(int open) { impl_->connections.Set(open); }

std::string Metrics::text(const EngineStats* stats) {
  if (stats) impl_->update(*stats);
  impl_->update_devices();
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace grokd

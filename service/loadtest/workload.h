#pragma once
// What a load test sends, when, and what it found.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "service/loadtest/client.h"

namespace grokd::loadtest {

struct Options {
  Target target;
  std::string model;          // "model" of each request; empty: left out
  std::string mix = "mixed";  // an entry of the table in workload.cpp
  int requests = 200;
  int concurrency = 8;  // used when rate is 0
  double rate = 0;      // arrivals a second (Poisson); 0: fixed concurrency
  bool bursty = false;  // arrivals in groups of eight at the same mean rate
  int max_tokens = 64;
  int vocab = 4096;           // prompts are token ids below this
  bool text_prompts = false;  // words instead of ids, for servers without id prompts
  std::uint64_t seed = 1;
  double slo_ttft_ms = 2000, slo_inter_token_ms = 200;
  double timeout = 0;         // deadline of each request in seconds, as the server is told; 0: none
  double priority_share = 0;  // of the requests that ask for service_tier "priority"
  int limit_seconds = 600;    // of one request
};

/// Names of the mixes, for help texts: "mixed, short, long, shared".
std::string mix_names();

/// Bodies of the requests, in order. Throws std::invalid_argument for an unknown mix.
std::vector<std::string> make_bodies(const Options& options);

/// Seconds after the start at which each request is sent (rate > 0).
std::vector<double> arrival_times(const Options& options);

/// Whether the i-th request asks for the priority tier: evenly spread.
bool is_priority(const Options& options, int i);

struct Distribution {
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0, mean = 0, std = 0;
};
Distribution describe(const std::vector<double>& values);

struct Result {
  std::vector<double> ttft_ms, inter_token_ms, end_to_end_ms;  // of the requests that were answered
  std::vector<double> priority_ttft_ms;                        // of those of the priority tier
  std::vector<double> refusal_ms;                              // until the status of a refusal
  std::uint64_t output_tokens = 0;
  int completed = 0, refused = 0, failed = 0;
  int late = 0;        // answered, but not before the deadline
  int within_slo = 0;  // within the limits and before the deadline
  double seconds = 0;
  std::string first_error;
};

Result evaluate(const std::vector<Timeline>& timelines, const Options& options);

/// Sends everything; `on_progress(done)` is called as requests end.
std::vector<Timeline> run(const Options& options, const std::function<void(int)>& on_progress);

}  // namespace grokd::loadtest

// grokd bench: speed of whole generations, each figure beside the limit of the machine in the same run.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/memory_plan.h"
#include "service/bench/machine.h"
#include "service/bench/runs.h"
#include "service/cli/commands.h"
#include "service/report/html_report.h"

namespace grokd::cli {

namespace {

struct BenchFlags {
  std::string model, html;
  int tokens = 128, repeat = 5;
  std::vector<int> prompts{128, 512};
  std::vector<int> batches{1, 2, 4, 8, 16};
  int requests = 100;
  bool json = false, single_steps = false;
  RunnerOptions runner;
};

int threads_used(const RunnerOptions& options) {
  return options.cpu.threads > 0 ? options.cpu.threads
                                 : static_cast<int>(std::thread::hardware_concurrency());
}

/// Medians of `run` (tokens a second), of sweeps over a step's bytes of weights between the runs, and of
/// their quotients. A step feeds `step_tokens` tokens.
template <class Run>
bench::Figure measure(const char* name, int size, double step_bytes, int step_tokens, const BenchFlags& flags,
                      Run run) {
  const double bytes = step_bytes / step_tokens;
  const bench::ReadSweep sweep(static_cast<std::size_t>(step_bytes), threads_used(flags.runner));
  std::vector<double> rates, swept, shares;
  run();  // warm-up
  double before = sweep.rate();
  for (int i = 0; i < flags.repeat; ++i) {
    const double rate = run(), after = sweep.rate();
    rates.push_back(rate);
    swept.push_back((before + after) / 2);
    shares.push_back(rate * bytes / swept.back());
    before = after;
  }
  const double rate = bench::median(rates);
  return {name, size, rate, bytes, rate * bytes / 1e9, bench::median(swept) / 1e9, bench::median(shares)};
}

nlohmann::ordered_json to_json(const bench::Figure& f) {
  if (f.prefill_ratio > 0) {
    return {{"name", f.name},
            {"size", f.size},
            {"tokens_per_second", f.tokens_per_second},
            {"prefill_ratio", f.prefill_ratio}};
  }
  return {{"name", f.name},
          {"size", f.size},
          {"tokens_per_second", f.tokens_per_second},
          {"bytes_per_token", f.bytes_per_token},
          {"read_gb_per_second", f.read_gb_per_second},
          {"bandwidth_gb_per_second", f.bandwidth_gb_per_second},
          {"bandwidth_share", f.bandwidth_share}};
}

void print_figures(const std::vector<bench::Figure>& figures, const std::vector<double>& late, bool json) {
  const double p99 = bench::percentile(late, 0.99) * 1e3, worst = bench::percentile(late, 1) * 1e3;
  if (json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const auto& f : figures) out.push_back(to_json(f));
    if (out.size() == 1) out = out[0];
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf("%-8s %6s %12s %14s %10s %14s %7s\n", "run", "size", "tokens/s", "MB/token", "GB/s",
              "machine GB/s", "share");
  for (const auto& f : figures) {
    if (f.prefill_ratio > 0) {
      std::printf("%-8s %6d %12.1f: a prompt at once is %.2f times as fast\n", f.name.c_str(), f.size,
                  f.tokens_per_second, f.prefill_ratio);
      continue;
    }
    std::printf("%-8s %6d %12.1f %14.2f %10.2f %14.2f %6.1f%%\n", f.name.c_str(), f.size, f.tokens_per_second,
                f.bytes_per_token / 1e6, f.read_gb_per_second, f.bandwidth_gb_per_second,
                100 * f.bandwidth_share);
  }
  std::printf("host jitter: a sleep of 0.25 ms on each core ended late by %.2f ms at P99, %.2f ms at most\n",
              p99, worst);
}

std::vector<bench::Figure> run_decode(bench::Subject& subject, const BenchFlags& flags) {
  return {measure("decode", 1, double(bytes_per_token(subject.config())), 1, flags,
                  [&] { return subject.decode_rate(1, flags.tokens); })};
}

/// One figure: how many times as fast as single steps. Each prompt is measured beside its own single steps,
/// so that a machine whose speed changes counts on both sides.
bench::Figure measure_batching(bench::Subject& subject, int tokens, const BenchFlags& flags) {
  std::vector<double> rates, ratios;
  for (int i = 0; i < flags.repeat; ++i) {
    const double before = subject.prefill_rate(tokens), single = subject.decode_rate(1, tokens),
                 after = subject.prefill_rate(tokens);
    rates.push_back(single);
    ratios.push_back((before + after) / 2 / single);
  }
  const double rate = bench::median(rates), bytes = double(bytes_per_token(subject.config()));
  bench::Figure figure{"single", tokens, rate, bytes, rate * bytes / 1e9, 0, 0};
  figure.prefill_ratio = bench::median(ratios);
  return figure;
}

std::vector<bench::Figure> run_prefill(bench::Subject& subject, const BenchFlags& flags) {
  std::vector<bench::Figure> figures;
  for (const int tokens : flags.prompts) {
    figures.push_back(measure("prefill", tokens, double(step_bytes(subject.config(), tokens)), tokens, flags,
                              [&] { return subject.prefill_rate(tokens); }));
    if (flags.single_steps) figures.push_back(measure_batching(subject, tokens, flags));
  }
  return figures;
}

std::vector<bench::Figure> run_batch(bench::Subject& subject, const BenchFlags& flags) {
  std::vector<bench::Figure> figures;
  for (const int sequences : flags.batches) {
    figures.push_back(measure("batch", sequences, double(step_bytes(subject.config(), sequences)), sequences,
                              flags, [&] { return subject.decode_rate(sequences, flags.tokens); }));
  }
  return figures;
}

void write_html(const std::string& file, const BenchFlags& flags, const std::vector<bench::Figure>& figures,
                const std::vector<double>& late) {
  report::HtmlReport page("grokd bench " + figures.at(0).name);
  page.add_text(flags.model + ", " + std::to_string(threads_used(flags.runner)) + " threads, median of " +
                std::to_string(flags.repeat) + " runs. A sleep of 0.25 ms on each core ended late by " +
                report::number(bench::percentile(late, 0.99) * 1e3) + " ms at P99.");
  report::Table table{"Rates", {"size", "tokens/s", "MB/token", "read GB/s", "machine GB/s", "share"}, {}};
  report::Series rate{"tokens/s", {}, {}}, read{"read", {}, {}}, machine{"machine", {}, {}};
  for (const auto& f : figures) {
    table.rows.push_back({std::to_string(f.size), report::number(f.tokens_per_second),
                          report::number(f.bytes_per_token / 1e6), report::number(f.read_gb_per_second),
                          report::number(f.bandwidth_gb_per_second), report::number(f.bandwidth_share)});
    for (report::Series* series : {&rate, &read, &machine}) series->x.push_back(f.size);
    rate.y.push_back(f.tokens_per_second);
    read.y.push_back(f.read_gb_per_second);
    machine.y.push_back(f.bandwidth_gb_per_second);
  }
  page.add(table);
  page.add(report::Plot{"Rate", "size", "tokens/s", {rate}, true});
  page.add(
      report::Plot{"Weights read, and what this machine can read", "size", "GB/s", {read, machine}, true});
  page.write(file);
}

using Bench = std::vector<bench::Figure> (*)(bench::Subject&, const BenchFlags&);

int run_figures(Bench bench, const BenchFlags& flags, int sequences, int step_tokens) {
  RunnerOptions options = flags.runner;
  options.max_sequences = sequences;
  options.max_batch_tokens = step_tokens;
  bench::Subject subject(flags.model, options);
  bench::JitterMeter jitter;
  const auto figures = bench(subject, flags);
  const auto late = jitter.stop();
  print_figures(figures, late, flags.json);
  if (!flags.html.empty()) write_html(flags.html, flags, figures, late);
  return 0;
}

nlohmann::ordered_json spread(const std::vector<double>& ms) {
  const double p50 = bench::median(ms);
  return {{"p50_ms", p50},
          {"p99_ms", bench::percentile(ms, 0.99)},
          {"max_ms", bench::percentile(ms, 1)},
          {"max_over_p50", bench::percentile(ms, 1) / p50},
          {"std_over_mean", bench::variation(ms)}};
}

struct TimedAnswer {
  bench::JitterMeter::Clock::time_point start, end;
  double read_rate;  // of the machine, before and after
};

/// `net_of_gaps`: without the host's gaps; `net`: that at the median read rate of the run.
nlohmann::ordered_json spreads(const std::vector<TimedAnswer>& answers, const bench::JitterMeter& jitter) {
  std::vector<double> raw, net_of_gaps, net, gaps, rates;
  for (const TimedAnswer& answer : answers) rates.push_back(answer.read_rate);
  const double usual_rate = bench::median(rates);
  for (const TimedAnswer& answer : answers) {
    raw.push_back(std::chrono::duration<double, std::milli>(answer.end - answer.start).count());
    gaps.push_back(jitter.gaps_between(answer.start, answer.end) * 1e3);
    net_of_gaps.push_back(std::max(0.0, raw.back() - gaps.back()));
    net.push_back(net_of_gaps.back() * answer.read_rate / usual_rate);
  }
  return {{"raw", spread(raw)},
          {"net_of_gaps", spread(net_of_gaps)},
          {"net", spread(net)},
          {"gaps_in_an_answer_max_ms", bench::percentile(gaps, 1)},
          {"bandwidth_gb_per_second", usual_rate * 1e-9},
          {"bandwidth_std_over_mean", bench::variation(rates)}};
}

int run_latency(const BenchFlags& flags) {
  constexpr int kAnswerTokens = 64;
  RunnerOptions options = flags.runner;
  options.max_sequences = 1;
  bench::Subject subject(flags.model, options);
  const bench::ReadSweep sweep(bytes_per_token(subject.config()), threads_used(flags.runner));
  subject.answer_seconds(kAnswerTokens);
  bench::JitterMeter jitter;
  std::vector<TimedAnswer> answers;
  for (int i = 0; i < flags.requests; ++i) {
    const double before = sweep.rate();
    const auto start = bench::JitterMeter::Clock::now();
    subject.answer_seconds(kAnswerTokens);
    const auto end = bench::JitterMeter::Clock::now();
    answers.push_back({start, end, (before + sweep.rate()) / 2});
  }
  const double longest_gap = bench::percentile(jitter.stop(), 1);
  nlohmann::ordered_json out{{"requests", flags.requests}, {"answer_tokens", kAnswerTokens}};
  out.update(spreads(answers, jitter));
  out["host_gap_max_ms"] = longest_gap * 1e3;
  std::printf("%s\n", out.dump(flags.json ? -1 : 2).c_str());
  return 0;
}

void add_common(CLI::App& command, BenchFlags& flags) {
  command.add_option("--model", flags.model, "Folder of the model")->required();
  command.add_option("--repeat", flags.repeat, "Runs of which the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command.add_option("--threads", flags.runner.cpu.threads, "Kernel threads; 0 = all cores");
  command
      .add_option("--tensor-parallel", flags.runner.tensor_parallel,
                  "Ranks that share the model and the threads")
      ->capture_default_str();
  command.add_flag("--force-threads", flags.runner.cpu.force_threads, "Allow more threads than cores");
  command.add_option("--isa", flags.runner.cpu.isa, "scalar, avx2 or avx512");
  command.add_option("--backend", flags.runner.backend, "cpu, cuda, auto or reference")->capture_default_str();
  add_kv_type(command, flags.runner.kv_type);
  command.add_flag("--json", flags.json, "Print JSON instead of a table");
  command.add_option("--html", flags.html, "Also write a report with plots to this file");
}

void add_tokens(CLI::App& command, BenchFlags& flags) {
  command.add_option("--tokens", flags.tokens, "Tokens of each answer")
      ->capture_default_str()
      ->check(CLI::Range(2, 100000));
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* bench = app.add_subcommand("bench", "Measure speed beside the limits of this machine");
  bench->require_subcommand(1);
  CLI::App* decode = bench->add_subcommand("decode", "Tokens a second of one sequence");
  CLI::App* prefill = bench->add_subcommand("prefill", "Prompt tokens a second");
  CLI::App* batch = bench->add_subcommand("batch", "Tokens a second of several sequences at once");
  CLI::App* latency = bench->add_subcommand("latency", "Times of equal greedy answers, one after the other");
  add_bench_kernels(*bench, exit_code);
  for (CLI::App* command : {decode, prefill, batch, latency}) add_common(*command, *flags);
  add_tokens(*decode, *flags);
  add_tokens(*batch, *flags);
  prefill->add_option("--prompt-tokens", flags->prompts, "Prompt lengths")
      ->capture_default_str()
      ->delimiter(',');
  prefill->add_flag("--single-steps", flags->single_steps, "Also take as many tokens one step each");
  batch->add_option("--batch", flags->batches, "Sequences at once")->capture_default_str()->delimiter(',');
  latency->add_option("--requests", flags->requests, "Answers")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  decode->callback([flags, &exit_code] { exit_code = run_figures(run_decode, *flags, 1, 512); });
  prefill->callback([flags, &exit_code] { exit_code = run_figures(run_prefill, *flags, 1, 512); });
  batch->callback([flags, &exit_code] {
    const int most = *std::max_element(flags->batches.begin(), flags->batches.end());
    exit_code = run_figures(run_batch, *flags, most, 512);
  });
  latency->callback([flags, &exit_code] { exit_code = run_latency(*flags); });
}

}  // namespace grokd::cli

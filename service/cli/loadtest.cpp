// grokd loadtest: many streaming requests to any OpenAI-style server; latencies, goodput, refusals.

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "service/cli/commands.h"
#include "service/loadtest/workload.h"
#include "service/report/html_report.h"

namespace grokd::cli {

namespace {

using loadtest::Distribution;

struct LoadtestFlags {
  loadtest::Options options;
  std::string url = "http://127.0.0.1:8080";
  std::string html;
  bool json = false;
};

nlohmann::ordered_json to_json(const Distribution& d) {
  return {{"p50", d.p50}, {"p90", d.p90},   {"p99", d.p99}, {"p999", d.p999},
          {"max", d.max}, {"mean", d.mean}, {"std", d.std}};
}

nlohmann::ordered_json to_json(const loadtest::Result& r) {
  return {{"requests", r.completed + r.refused + r.failed},
          {"completed", r.completed},
          {"refused", r.refused},
          {"failed", r.failed},
          {"late", r.late},
          {"first_error", r.first_error},
          {"seconds", r.seconds},
          {"output_tokens", r.output_tokens},
          {"output_tokens_per_second", r.seconds > 0 ? double(r.output_tokens) / r.seconds : 0},
          {"goodput", r.seconds > 0 ? r.within_slo / r.seconds : 0},
          {"ttft_ms", to_json(loadtest::describe(r.ttft_ms))},
          {"inter_token_ms", to_json(loadtest::describe(r.inter_token_ms))},
          {"end_to_end_ms", to_json(loadtest::describe(r.end_to_end_ms))},
          {"priority_ttft_ms", to_json(loadtest::describe(r.priority_ttft_ms))},
          {"refusal_ms", to_json(loadtest::describe(r.refusal_ms))}};
}

std::vector<std::string> row(const std::string& name, const Distribution& d) {
  std::vector<std::string> cells{name};
  for (const double v : {d.p50, d.p90, d.p99, d.p999, d.max, d.mean, d.std})
    cells.push_back(report::number(v));
  return cells;
}

report::Table make_table(const loadtest::Result& r) {
  report::Table table{"Latency in milliseconds",
                      {"", "P50", "P90", "P99", "P99.9", "max", "mean", "std"},
                      {row("time to first token", loadtest::describe(r.ttft_ms)),
                       row("between tokens", loadtest::describe(r.inter_token_ms)),
                       row("whole answer", loadtest::describe(r.end_to_end_ms))}};
  if (!r.priority_ttft_ms.empty())
    table.rows.push_back(row("first, priority", loadtest::describe(r.priority_ttft_ms)));
  if (!r.refusal_ms.empty()) table.rows.push_back(row("refusal", loadtest::describe(r.refusal_ms)));
  return table;
}

/// Value against the share of requests that took longer: tails are seen on a logarithmic axis.
report::Series tail(const std::string& name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  report::Series series{name, {}, {}};
  const auto n = static_cast<double>(values.size());
  for (double share = 1; share * n >= 1; share /= 1.25) {
    const auto rank = static_cast<std::size_t>(n - share * n);
    series.x.push_back(1 / share);
    series.y.push_back(values[std::min(rank, values.size() - 1)]);
  }
  return series;
}

void write_html(const std::string& file, const LoadtestFlags& flags, const loadtest::Result& r) {
  report::HtmlReport page("grokd load test");
  page.add_text(flags.url + ": " + std::to_string(r.completed) + " answered, " + std::to_string(r.refused) +
                " refused, " + std::to_string(r.failed) + " failed in " + report::number(r.seconds) + " s; " +
                report::number(double(r.output_tokens) / std::max(r.seconds, 1e-9)) + " tokens a second.");
  page.add(make_table(r));
  page.add(report::Plot{"Time to first token",
                        "1 in N requests takes longer",
                        "ms",
                        {tail("time to first token", r.ttft_ms)},
                        true});
  page.add(report::Plot{"Between tokens",
                        "1 in N tokens takes longer",
                        "ms",
                        {tail("between tokens", r.inter_token_ms)},
                        true});
  page.add(report::Plot{
      "Whole answer", "1 in N requests takes longer", "ms", {tail("whole answer", r.end_to_end_ms)}, true});
  page.write(file);
}

void print_table(const loadtest::Result& r) {
  const report::Table table = make_table(r);
  std::printf("%-20s", "ms");
  for (std::size_t i = 1; i < table.columns.size(); ++i) std::printf("%10s", table.columns[i].c_str());
  std::printf("\n");
  for (const auto& cells : table.rows) {
    std::printf("%-20s", cells[0].c_str());
    for (std::size_t i = 1; i < cells.size(); ++i) std::printf("%10s", cells[i].c_str());
    std::printf("\n");
  }
  std::printf(
      "%d answered (%d late), %d refused, %d failed in %.2f s: %.1f tokens/s, goodput %.2f requests/s\n",
      r.completed, r.late, r.refused, r.failed, r.seconds,
      double(r.output_tokens) / std::max(r.seconds, 1e-9), r.within_slo / std::max(r.seconds, 1e-9));
  if (r.failed > 0) std::printf("first failure: %s\n", r.first_error.c_str());
}

void show_progress(int done, int all) {
  constexpr int kBar = 40;
  const int filled = kBar * done / all;
  std::fprintf(stderr, "\r[%.*s%*s] %d/%d", filled, "========================================", kBar - filled,
               "", done, all);
  if (done == all) std::fprintf(stderr, "\n");
}

int run_loadtest(LoadtestFlags& flags) {
  const std::string key = flags.options.target.key;
  flags.options.target = loadtest::parse_url(flags.url);
  flags.options.target.key = key;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto timelines = loadtest::run(flags.options, [&](int done) {
    if (terminal) show_progress(done, flags.options.requests);
  });
  const loadtest::Result result = loadtest::evaluate(timelines, flags.options);
  if (flags.json) {
    std::printf("%s\n", to_json(result).dump().c_str());
  } else {
    print_table(result);
  }
  if (!flags.html.empty()) write_html(flags.html, flags, result);
  return result.failed > 0 ? 1 : 0;
}

}  // namespace

void add_loadtest(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<LoadtestFlags>();
  loadtest::Options& o = flags->options;
  CLI::App* command = app.add_subcommand("loadtest", "Drive a server with streaming requests and measure it");
  command->add_option("--url", flags->url, "http://host:port of the server")->capture_default_str();
  command->add_option("--key", o.target.key, "API key");
  command->add_option("--model", o.model, "Model id to ask for");
  command->add_option("--mix", o.mix, "Prompt lengths: " + loadtest::mix_names())->capture_default_str();
  command->add_option("--requests", o.requests)->capture_default_str()->check(CLI::Range(1, 1000000));
  command->add_option("--concurrency", o.concurrency, "Requests in flight, when no rate is given")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->add_option("--rate", o.rate, "Arrivals a second instead of fixed concurrency")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--bursty", o.bursty, "Arrivals in groups of eight");
  command->add_option("--max-tokens", o.max_tokens)->capture_default_str()->check(CLI::Range(1, 100000));
  command->add_option("--timeout", o.timeout, "Deadline that each request gives the server, in seconds")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--priority-share", o.priority_share, "Share of requests of the priority tier")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--vocab", o.vocab, "Prompts are random token ids below this")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 24));
  command->add_flag("--text", o.text_prompts, "Prompts of words, for servers that take no token ids");
  command->add_option("--seed", o.seed)->capture_default_str();
  command->add_option("--slo-ttft-ms", o.slo_ttft_ms, "Goodput counts requests within both limits")
      ->capture_default_str();
  command->add_option("--slo-itl-ms", o.slo_inter_token_ms)->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("--html", flags->html, "Write a report with plots to this file");
  command->callback([flags, &exit_code] { exit_code = run_loadtest(*flags); });
}

}  // namespace grokd::cli

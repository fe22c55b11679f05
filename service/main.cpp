#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "service/cli/commands.h"

namespace {

/// Help and version go to standard output and are no failure; everything else is one line.
int report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::string line = error.what();
  const auto unknown = app.remaining(true);
  if (line.starts_with("A subcommand") && !unknown.empty()) line += ", and " + unknown.front() + " is none";
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "grokd: %s\n", line.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"grokd serves Grok-family mixture-of-experts models over an OpenAI-style HTTP API"};
  app.set_version_flag("--version", "grokd " GROKD_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  for (auto add :
       {grokd::cli::add_serve, grokd::cli::add_generate, grokd::cli::add_inspect, grokd::cli::add_synth,
        grokd::cli::add_bench, grokd::cli::add_loadtest, grokd::cli::add_score, grokd::cli::add_plan,
        grokd::cli::add_pack, grokd::cli::add_verify, grokd::cli::add_calibrate, grokd::cli::add_quality}) {
    add(app, exit_code);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "grokd: %s\n", error.what());
    return 1;
  }
  return exit_code;
}

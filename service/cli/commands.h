#pragma once
// The subcommands of `grokd`, one file each. Every function adds its subcommand with flags to `app`; when
// chosen, its callback runs the command and leaves the exit code in `exit_code`.

#include <string>

#include "kernels/backend.h"

namespace CLI {
class App;
}

namespace grokd::cli {

void add_serve(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_synth(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_bench_kernels(CLI::App& bench, int& exit_code);
void add_loadtest(CLI::App& app, int& exit_code);
void add_score(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_pack(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_calibrate(CLI::App& app, int& exit_code);
void add_quality(CLI::App& app, int& exit_code);

/// --kv-type int16|int8.
void add_kv_type(CLI::App& command, kernels::KvType& type);

/// Throws ConfigError naming the file.
std::string read_text(const std::string& file);

}  // namespace grokd::cli

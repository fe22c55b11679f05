// What several subcommands share.

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "engine/models/config.h"
#include "service/cli/commands.h"

namespace grokd::cli {

void add_kv_type(CLI::App& command, kernels::KvType& type) {
  command
      .add_option_function<std::string>(
          "--kv-type",
          [&type](const std::string& name) {
            type = name == "int8" ? kernels::KvType::int8 : kernels::KvType::int16;
          },
          "codes of the KV cache: int16, or int8 (half the memory, other bits; needs `grokd calibrate`)")
      ->check(CLI::IsMember({"int16", "int8"}))
      ->default_str("int16");
}

std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw ConfigError(file + ": cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

}  // namespace grokd::cli
